// build: secure walls
// From the end of any block a sweep upwards faults within 64 KiB. It meets no block before that but
// those of the same slab, which have the same size and call site. A sweep downwards does so too,
// after at most one block more.
// timeout: 120
// promise: 1 9
// libc: skip it has no walls
#include "faults.h"

enum { REACH = 64 << 10, EACH = 300, SITES = 3 };
static const size_t size[] = {1,    16,   24,    64,    100,   200,   240,    500,    1000,   1500,
                              2048, 4096, 5000,  8192,  12288, 16384, 24000,  32768,  40000, 48000,
                              60000, 64000, 90000, 98304, 130000, 140000, 300000, 1000000};
enum { SIZES = sizeof size / sizeof *size, N = SIZES * SITES * EACH };
static struct block {
    unsigned char *p;
    size_t size;
    int site;
} block[N];

/* The first of these sizes in the same slots. */
static size_t first_of_class(size_t bytes)
{
    switch (bytes) {
    case 24: return 16;
    case 48000: return 40000;
    case 64000: return 60000;
    case 130000: return 98304;
    default: return bytes;
    }
}

NOINLINE void *site_0(size_t n) { void *p = malloc(n); NO_TAIL_CALL(); return p; }
NOINLINE void *site_1(size_t n) { void *p = malloc(n); NO_TAIL_CALL(); return p; }
NOINLINE void *site_2(size_t n) { void *p = malloc(n); NO_TAIL_CALL(); return p; }

static int by_address(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    return x->p < y->p ? -1 : x->p > y->p;
}

int main(void)
{
    void *(*const site[SITES])(size_t) = {site_0, site_1, site_2};
    int n = 0;
    for (int i = 0; i < EACH; i++)
        for (int k = 0; k < (int)SIZES; k++) {
            /* Fewer of the large ones. */
            if ((size_t)i * size[k] > 4 << 20)
                continue;
            for (int s = 0; s < SITES; s++, n++) {
                block[n].p = site[s](size[k]);
                CHECK(block[n].p);
                block[n].size = size[k];
                block[n].site = s;
            }
        }
    qsort(block, (size_t)n, sizeof *block, by_address);
    catch_faults();
    size_t longest = 0;
    for (int i = 0; i < n; i++) {
        unsigned char *end = block[i].p + block[i].size;
        size_t up = sweep(end, 1, REACH + 1), down = sweep(block[i].p, -1, 3 * REACH);
        CHECK(up <= REACH);
        longest = up > longest ? up : longest;
        /* Downwards there may be a run of blocks, of which the first ends within reach. */
        CHECK(down < REACH + (block[i].size > REACH ? REACH : block[i].size) + 2 * page_size());
        for (int j = i + 1; j < n && block[j].p < end + up; j++) {
            CHECK(block[i].size <= 131072);
            CHECK(first_of_class(block[i].size) == first_of_class(block[j].size));
            CHECK(block[i].site == block[j].site);
        }
    }
    announce_number("longest", longest);
    return 0;
}
