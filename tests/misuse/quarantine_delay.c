// A block that was freed is not handed out again before as many more of its class were freed as 16
// KiB hold, 1024 at most. When exactly is not predictable: of up to 256 bytes, two delays are equal
// no more often than one time in 150; of larger ones, of which fewer wait, one time in 3. (How long
// a block stays in the quarantine is equal one time in 191; what malloc chooses of comes on top.
// Where malloc went through the groups of a slab in turn, delays lay in bunches: one in 112 of 200
// bytes. That the stays are distributed as they must be is tested by chi-square in
// `thread/quarantine.rs`.)
// build: full the light one has a smaller quarantine
// run: 15
// run: 63
// run: 200
// run: 239
// run: 1000
// run: 5000
// libc: skip glibc hands out what was freed last
// promise: 13 30
#include "one_site.h"

enum { TRIALS = 1000 };

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    size_t least = 16384 / ((size + 16) & ~(size_t)15);
    if (size > 256)
        least = 16384 / (size + size / 4);
    least = least > 1024 ? 1024 : least < 1 ? 1 : least;
    static size_t delays[TRIALS];
    size_t equal = 0;
    for (size_t trial = 0; trial < TRIALS; trial++) {
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
        for (size_t other = 0; other < trial; other++)
            equal += delays[other] == frees;
        delays[trial] = frees;
        free(launder(p));
    }
    size_t pairs = (size_t)TRIALS * (TRIALS - 1) / 2;
    announce_number("one_in", pairs / (equal ? equal : 1));
    CHECK(equal <= pairs / (size <= 256 ? 150 : 3));
    return 0;
}
