// TOFT_FILL: what malloc hands out is a5, what is freed df, what calloc gives zero; realloc keeps
// what there is.
// flags: -pthread
// env: TOFT_FILL=alloc,free
// libc: skip it has no such option
// build: default the secure one clears both
#include "common.h"

static int all(const unsigned char *p, size_t n, unsigned char byte)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != byte)
            return 0;
    return 1;
}

static void *elsewhere(void *p)
{
    free(p);
    return NULL;
}

int main(void)
{
    for (size_t n = 1; n < 100000; n += n / 7 + 1) {
        unsigned char *p = launder(malloc(n));
        size_t usable = malloc_usable_size(p);
        CHECK(all(p, usable, 0xa5));
        memset(p, 1, n);
        p = realloc(p, 3 * n);
        CHECK(p && all(p, n, 1));
        unsigned char *q = launder(calloc(1, n));
        CHECK(all(q, n, 0));
        unsigned char *aligned = launder(aligned_alloc(256, n));
        CHECK(all(aligned, n, 0xa5));
        size_t left = malloc_usable_size(q);
        free(q);
        /* Freed, and not used again: what a stale pointer reads. Of more than a page it may have gone back. */
        if (left < 4096)
            CHECK(all(launder(q), left, 0xdf));
        pthread_t thread;
        if (n % 5 == 0) {
            CHECK(pthread_create(&thread, NULL, elsewhere, aligned) == 0);
            CHECK(pthread_join(thread, NULL) == 0);
        } else {
            free(aligned);
        }
        if (n < 2000)
            CHECK(all(launder(aligned), n, 0xdf));
        free(p);
    }
    return 0;
}
