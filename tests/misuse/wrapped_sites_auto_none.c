// The twin: functions that are none are not taken for wrappers, however much comes through them.
// One that asks for many sizes for one caller, one that many callers have and that asks for one
// size, and one that is long.
// env: TOFT_WRAPPERS=auto
// run: 0
// run: 1
// run: 2
// libc: skip it has no statistics
// promise: 16
#include "many_sites.h"

NOINLINE void *many_sizes_of_one(size_t size)
{
    void *p = malloc(size);
    NO_TAIL_CALL();
    return p;
}

NOINLINE void *one_size_of_many(size_t size)
{
    void *p = malloc(size ? 100 : 0);
    NO_TAIL_CALL();
    return p;
}

NOINLINE void *long_one(size_t size)
{
    void *p = malloc(size);
    __asm__ volatile(".skip 600, 0x90");
    return p;
}

static int shape;

#define SITE(n)                                                                                    \
    NOINLINE void *site_##n(size_t size)                                                           \
    {                                                                                              \
        void *p = shape == 1 ? one_size_of_many(size) : long_one(size);                            \
        NO_TAIL_CALL();                                                                            \
        return p;                                                                                  \
    }
#include "site_table.h"
#include "found.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    shape = atoi(argv[1]);
    if (shape == 0) {
        for (int round = 0; round < 10000; round++)
            free(many_sizes_of_one(16 + 48 * (round % 30)));
    } else {
        many_sizes();
        CHECK(disjoint_pairs(64) == 0);
    }
    CHECK(statistic("found_wrappers") == 0);
    CHECK(statistic("own_sites") > 0);
    return 0;
}
