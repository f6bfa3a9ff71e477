// Over 100 runs: at least 28 bits of the address of a small, medium, large or zero-size block vary.
// At least 20 bits vary of the distances between a large block and a slot. In the secure builds
// they also vary between slots of two call sites. Small and medium slots of one call site are near
// each other. Bits that never vary are where a run's place is fixed, as the lowest four are.
// timeout: 120
// libc: skip the break's ASLR is what it is
// promise: 2 3 19
// case: entropy -DAPART=0
// case: entropy_of_sites -DAPART=1
// build: secure slabs of the default build are neighbours
#include "common.h"

enum { RUNS = 100, SITES = 24, BLOCKS = 3 + SITES };

/* Separate call sites: of that many, some have other partitions than the first. */
#define SITE(n)                                                                                    \
    NOINLINE void *site_##n(size_t size)                                                           \
    {                                                                                              \
        void *p = malloc(size);                                                                    \
        NO_TAIL_CALL();                                                                            \
        return p;                                                                                  \
    }
SITE(0) SITE(1) SITE(2) SITE(3) SITE(4) SITE(5) SITE(6) SITE(7) SITE(8) SITE(9) SITE(10) SITE(11)
SITE(12) SITE(13) SITE(14) SITE(15) SITE(16) SITE(17) SITE(18) SITE(19) SITE(20) SITE(21) SITE(22)
SITE(23)
static void *(*const site[SITES])(size_t) = {
    site_0,  site_1,  site_2,  site_3,  site_4,  site_5,  site_6,  site_7,
    site_8,  site_9,  site_10, site_11, site_12, site_13, site_14, site_15,
    site_16, site_17, site_18, site_19, site_20, site_21, site_22, site_23};

static int bits(uintptr_t (*value)[BLOCKS], int which, int from)
{
    uintptr_t varying = 0;
    for (int run = 1; run < RUNS; run++) {
        uintptr_t here = value[run][which] - (from < 0 ? 0 : value[run][from]);
        uintptr_t first = value[0][which] - (from < 0 ? 0 : value[0][from]);
        varying |= here ^ first;
    }
    return __builtin_popcountl(varying);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        printf("%lx %lx %lx", (unsigned long)site_0(5000), (unsigned long)site_0(300000),
               (unsigned long)site_0(launder_size(0)));
        for (int i = 0; i < SITES; i++)
            printf(" %lx", (unsigned long)site[i](64));
        return 0;
    }
    static uintptr_t value[RUNS][BLOCKS];
    for (int run = 0; run < RUNS; run++) {
        char text[4096], *at = text;
        CHECK(run_again("report", 1, text, sizeof text) == 0);
        for (int i = 0; i < BLOCKS; i++)
            CHECK((value[run][i] = strtoul(at, &at, 16)));
    }
    int least = 64, apart = 64, sites = 0;
    for (int i = 0; i < BLOCKS; i++) {
        int own = bits(value, i, -1);
        least = own < least ? own : least;
    }
    /* Small to large, medium to large. */
    const int pair[2][2] = {{1, 3}, {1, 0}};
    for (int i = 0; i < 2; i++) {
        int between = bits(value, pair[i][0], pair[i][1]);
        apart = between < apart ? between : apart;
    }
    for (int i = 1; i < SITES; i++)
        sites += bits(value, 3 + i, 3) >= 20;
    announce_number("base_bits", (size_t)least);
    announce_number("tier_bits", (size_t)apart);
    announce_number("sites_apart", (size_t)sites);
    CHECK(least >= 28 && apart >= 20 && (!APART || sites == SITES - 1));
    return 0;
}
