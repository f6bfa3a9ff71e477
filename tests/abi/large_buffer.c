// Law 4, large blocks: a small program that uses one buffer again and again does not have its pages
// cleared each time.
// promise: 22
// libc: skip it has other bounds
// build: default the secure build maps each block anew
#include "page_faults.h"

int main(void)
{
    enum { ROUNDS = 200 };
    const size_t size = 3 << 20;
    size_t before = (size_t)page_faults();
    for (int i = 0; i < ROUNDS; i++) {
        char *p = malloc(size);
        CHECK(p);
        memset(p, i, size);
        free(p);
    }
    /* Only the first rounds fault: those of 16 MiB. */
    size_t all = ROUNDS * (size / page_size()), seen = (size_t)page_faults() - before;
    printf("%zu faults of %zu\n", seen, all);
    return seen > all / 8;
}
