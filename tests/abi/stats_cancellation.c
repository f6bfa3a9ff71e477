// A thread that is cancelled inside malloc_stats or malloc_info leaves nothing locked behind.
// flags: -pthread
// stderr-any: the statistics themselves
// promise: 25
#include "common.h"

static void *cancelled(void *arg)
{
    FILE *f = arg;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_cancel(pthread_self());
    malloc_info(0, f);
    malloc_stats();
    pthread_testcancel();
    return NULL;
}

int main(void)
{
    for (int i = 0; i < 100; i++) {
        FILE *f = fopen("/dev/null", "w");
        CHECK(f);
        CHECK(join(spawn(cancelled, f)) == PTHREAD_CANCELED);
        for (int k = 0; k < 100; k++)
            free(malloc((size_t)k * 50));
    }
    /* Would hang had the last thread left a lock. */
    malloc_stats();
    return 0;
}
