// A program that takes all pthread keys before its first allocation still allocates, in threads
// too; what threads leave at their exit is not lost.
// flags: -pthread
// promise: 25
// musl: skip one of its 128 keys is Toft's
// aarch64: skip qemu fails an assertion
#include "common.h"

static void *thread(void *arg)
{
    void *p[200];
    for (size_t i = 0; i < 200; i++)
        CHECK((p[i] = malloc(i * 100)));
    for (size_t i = 0; i < 200; i++)
        free(p[i]);
    return arg;
}

static int taken;

static void take_keys(void)
{
    pthread_key_t key;
    while (pthread_key_create(&key, NULL) == 0)
        taken++;
}

__attribute__((section(".preinit_array"), used)) static void (*const in_preinit)(void) = take_keys;

int main(void)
{
    CHECK(taken == PTHREAD_KEYS_MAX);
    for (int i = 0; i < 50; i++)
        join(spawn(thread, NULL));
    size_t rss = rss_bytes();
    for (int i = 0; i < 2000; i++)
        join(spawn(thread, NULL));
    CHECK(rss_bytes() < rss + (8 << 20));
    return 0;
}
