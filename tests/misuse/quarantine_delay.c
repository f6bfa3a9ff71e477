// A block that was freed is not handed out again before as many more of its class were freed as 16 KiB
// hold, 1024 at most; and nobody can say exactly when.
// build: hardened the default one hands out what was freed last
// run: 15
// run: 63
// run: 239
// run: 1000
// run: 5000
// libc: skip glibc hands out what was freed last
// promise: 13 30
#include "common.h"

NOINLINE void *allocate(size_t size)
{
    void *p = malloc(size);
    NO_TAIL_CALL();
    return p;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    size_t least = 16384 / (size + 1);
    if (size > 256)
        least = 16384 / (size + size / 4);
    least = least > 1024 ? 1024 : least < 1 ? 1 : least;
    static size_t delays[1000];
    size_t different = 0;
    for (int trial = 0; trial < 40; trial++) {
        void *p = allocate(size);
        CHECK(p);
        free(p);
        size_t frees = 0;
        while (frees < 4000000) {
            void *q = launder(allocate(size));
            CHECK(q);
            if (q == launder(p))
                break;
            free(q);
            frees++;
        }
        CHECK(frees >= least && frees < 4000000);
        size_t known = 0;
        while (known < different && delays[known] != frees)
            known++;
        if (known == different)
            delays[different++] = frees;
        free(launder(p));
    }
    /* Of 256 blocks' delay or more hardly any two are the same. */
    CHECK(different >= (size <= 256 ? 30 : 5));
    return 0;
}
