// A block of more than 1 KiB has at most a quarter more usable bytes than were requested, whichever
// function allocated it. Programs count malloc_usable_size as the size of what they keep.
#include "common.h"

enum { LEAST = 1025, MEDIUM_MOST = 128 << 10, MOST = 1 << 20, LARGE_STEP = 61 };

static void is_bounded(void *p, size_t size)
{
    CHECK(p);
    size_t usable = malloc_usable_size(p), most = size + size / 4;
    /* Large blocks are whole pages, which may be of 64 KiB. */
    if (size > MEDIUM_MOST && most < size + page_size())
        most = size + page_size();
    CHECK(usable >= size && usable <= most);
}

int main(void)
{
    char *growing = malloc(LEAST);
    CHECK(growing);
    for (size_t size = LEAST; size <= MOST; size++) {
        void *p = malloc(size);
        is_bounded(p, size);
        free(p);
        growing = realloc(growing, size);
        is_bounded(growing, size);
        /* These clear and copy, and every large block is a number of pages. */
        if (size > MEDIUM_MOST && size % LARGE_STEP)
            continue;
        p = calloc(1, size);
        is_bounded(p, size);
        free(p);
        p = realloc(malloc(16), size);
        is_bounded(p, size);
        free(p);
        for (size_t alignment = 16; alignment <= 256; alignment *= 4) {
            p = aligned_alloc(alignment, size);
            is_bounded(p, size);
            free(p);
        }
    }
    free(growing);
    return 0;
}
