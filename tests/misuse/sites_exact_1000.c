// 1 000 call sites have slabs that no other ever has: while all are live, when others have freed
// theirs, after a trim, and from another thread.
// env: TOFT_PARTITIONS=exact
// run: 64
// run: 1000
// run: 5000
// run: 200000
// timeout: 120
// libc: skip glibc gives anything to anyone
// promise: 15
#include "many_sites.h"
#include <malloc.h>
#include <pthread.h>

enum { SITES = 1000, EACH = 3, ROUNDS = 4, PLACES = 1 << 18 };

/* Which site has each page. */
static struct { uintptr_t unit; int site; } owners[PLACES];
static size_t units;
static size_t size;
static void *blocks[SITES][EACH];

static void note(void *p, int site)
{
    uintptr_t unit = (uintptr_t)p >> 12;
    size_t at = unit * 0x9E3779B97F4A7C15u >> 46;
    for (;; at = (at + 1) % PLACES) {
        if (owners[at].unit == 0) {
            owners[at].unit = unit;
            owners[at].site = site;
            units++;
            CHECK(units < PLACES / 2);
            return;
        }
        if (owners[at].unit == unit) {
            CHECK(owners[at].site == site);
            return;
        }
    }
}

static void *rounds(void *unused)
{
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SITES; i++) {
            /* In another order each time: who frees last is not who asks first. */
            int site = (i * 7 + round * 331) % SITES;
            for (int n = 0; n < EACH; n++)
                note(blocks[site][n] = at_site(site, size), site);
        }
        for (int i = 0; i < SITES; i++)
            for (int n = 0; n < EACH; n++)
                free(blocks[i][n]);
        if (round % 2)
            purge_all();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size = strtoul(argv[1], NULL, 10);
    rounds(NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, rounds, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(units >= SITES);
    CHECK(statistic("own_sites") >= SITES);
    CHECK(statistic("merged_sites") == 0);
    return 0;
}
