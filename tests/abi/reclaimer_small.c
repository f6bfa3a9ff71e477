// A program with slabs of 16 MiB has a reclaimer once 4 MiB of their slots were handed out. With
// many call sites there are many slabs of which little is used.
// env: TOFT_PARTITIONS=exact
// libc: skip has no reclaimer
#include "reclaimer.h"
#include "statistic.h"

enum { SIZES = 5, SITES = 128 };

/* A function for each call site, so that each has a partition to itself. */
typedef void *(*maker)(size_t);
#define SITE(n) __attribute__((noinline)) static void *make_##n(size_t size) { void *p = malloc(size); ((volatile char *)p)[0] = n; return p; }
#define EIGHT(n) SITE(n##0) SITE(n##1) SITE(n##2) SITE(n##3) SITE(n##4) SITE(n##5) SITE(n##6) SITE(n##7)
EIGHT(1) EIGHT(2) EIGHT(3) EIGHT(4) EIGHT(5) EIGHT(6) EIGHT(7) EIGHT(8)
EIGHT(9) EIGHT(10) EIGHT(11) EIGHT(12) EIGHT(13) EIGHT(14) EIGHT(15) EIGHT(16)
#define NAME(n) make_##n
#define NAMES(n) NAME(n##0), NAME(n##1), NAME(n##2), NAME(n##3), NAME(n##4), NAME(n##5), NAME(n##6), NAME(n##7)
static const maker makers[SITES] = {NAMES(1),  NAMES(2),  NAMES(3),  NAMES(4),  NAMES(5),  NAMES(6),
                                    NAMES(7),  NAMES(8),  NAMES(9),  NAMES(10), NAMES(11), NAMES(12),
                                    NAMES(13), NAMES(14), NAMES(15), NAMES(16)};
/* Of a first slab of these sizes a call uses a sixth at most. */
static const size_t sizes[SIZES] = {3000, 3500, 4000, 4500, 5000};

int main(void)
{
    /* In the secure build fewer sites take more. */
    for (int site = 0; site < SITES && statistic("mapped_bytes") < 64 << 20; site++)
        for (int size = 0; size < SIZES; size++)
            makers[site](sizes[size]);
    /* Enough slots for a reclaimer, if they were in use. */
    CHECK(statistic("mapped_bytes") > 16 << 20 && statistic("live_bytes") < 3 << 20);
    /* Calls that look at the size of the program, for several ticks. */
    double end = now() + 0.3;
    while (now() < end) {
        void *some[500];
        for (int i = 0; i < 500; i++)
            some[i] = makers[0](1200);
        for (int i = 0; i < 500; i++)
            free(some[i]);
    }
    CHECK(!has_reclaimer());
    /* Now they come into use. */
    for (int i = 0; i < 20000; i++)
        makers[i % SITES](1200);
    end = now() + 60;
    int found = 0;
    while (!found && now() < end) {
        free(makers[0](1700)), makers[1](1200);
        found = has_reclaimer();
    }
    CHECK(found);
    return 0;
}
