// RLIMIT_AS set to 96 MB above what the process has: one size after the other until NULL with
// ENOMEM. Each gets a fair share of the 96 MB once the last size's blocks are freed: address space
// that was small blocks' must not stand in the way of large ones, nor the reverse.
// promise: 26 27
// timeout: 120
#include "limit.h"

int main(void)
{
    free(malloc(1000));
    size_t vsz = vsz_bytes();
    struct rlimit limit = {vsz + (96 << 20), vsz + (96 << 20)};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    static const size_t sizes[] = {300 << 10, 100, 5000, 300 << 10, 1000, 60000, 2 << 20, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct node *list = exhaust(sizes[i]);
        full_realloc();
        size_t got = 0;
        for (struct node *n = list; n; n = n->next)
            got += n->size;
        /* What is asked is usability, not efficiency at the limit. */
        CHECK(got > (24 << 20));
        release(list);
    }
    return 0;
}
