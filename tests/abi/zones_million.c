// A million zones, one after another, each with a block that is written to: no address comes back,
// and what the process has of mappings, memory and address space at the end is what it had at the
// beginning.
// run: 1000000
// libc: skip it has no zones
// build: default zones are the same in both builds, and a million of them take a minute
// timeout: 120
// aarch64: skip the figures include the emulator's addresses
#include "../zones.h"

static char *last;

static void zones(long n, uint64_t *forever)
{
    for (long i = 0; i < n; i++) {
        uint64_t zone = zone_create("one of many");
        CHECK(zone);
        char *p = zone_malloc(zone, 100);
        CHECK(p);
        *p = 1;
        /* Round the window: an address comes back only when all of it was used. */
        CHECK(p > last);
        last = p;
        if (i % 1000 == 0) {
            /* Some large blocks, and some zones that stay. */
            CHECK(zone_malloc(zone, 1 << 20));
            if (i % 100000 == 0 && forever) {
                forever[i / 100000] = zone;
                continue;
            }
        }
        CHECK(zone_destroy(zone) == 0);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    static uint64_t forever[16];
    zones(20000, NULL);
    size_t mappings = mapping_count(), rss = rss_bytes(), vsz = vsz_bytes();
    double begin = now();
    zones(atol(argv[1]), forever);
    double took = now() - begin;
    size_t stay = 0;
    for (int i = 0; i < 16; i++)
        stay += forever[i] != 0;
    printf("%.2f us for each zone; mappings %zu -> %zu, KiB resident %zu -> %zu, of addresses %zu -> %zu\n",
           took * 1e6 / (double)atol(argv[1]), mappings, mapping_count(), rss >> 10, rss_bytes() >> 10,
           vsz >> 10, vsz_bytes() >> 10);
    /* Each zone that stays has two stretches of addresses, and what the table says of it. */
    CHECK(mapping_count() <= mappings + 4 * stay + 4);
    CHECK(rss_bytes() <= rss + (64 << 10) * stay + (1 << 20));
    /* The table of lots: four bytes for each. */
    CHECK(vsz_bytes() <= vsz + (2 << 20) * stay + (32 << 20));
    for (int i = 0; i < 16; i++)
        if (forever[i])
            CHECK(zone_verify(forever[i]) == 0 && zone_destroy(forever[i]) == 0);
    return 0;
}
