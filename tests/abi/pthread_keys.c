// The program gets all pthread keys but at most one, and threads that allocate work when no key is
// free.
// flags: -pthread
// promise: 25
#include "common.h"

static void *thread(void *arg)
{
    for (size_t i = 0; i < 1000; i++)
        free(malloc(i * 100));
    return arg;
}

int main(void)
{
    pthread_key_t key[PTHREAD_KEYS_MAX];
    int n = 0;
    while (n < PTHREAD_KEYS_MAX && pthread_key_create(&key[n], free) == 0)
        n++;
    CHECK(n >= PTHREAD_KEYS_MAX - 1);
    for (int i = 0; i < 20; i++)
        join(spawn(thread, NULL));
    for (int i = 0; i < n; i++)
        CHECK(pthread_setspecific(key[i], malloc(10)) == 0);
    return 0;
}
