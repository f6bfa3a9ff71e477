// Law 4, large blocks, with a reclaimer: a vector that grows by realloc, is freed, and grows again
// has its pages from the last time. One that stays small gives back what it does not need.
// promise: 22
// env: TOFT_RECLAIM=thread
// env: TOFT_DECAY=2000
// timeout: 180
// libc: skip it has other bounds
// build: default the secure build maps each block anew
#include "bound.h"
#include "page_faults.h"

enum { ROUNDS = 10, FIRST = 256 << 10 };
static const size_t SIZE = 48 << 20;

static char *grow(size_t most)
{
    size_t size = FIRST;
    char *p = malloc(size);
    CHECK(p);
    memset(p, 1, size);
    while (size < most) {
        size_t more = size + size / 4;
        CHECK((p = realloc(p, more)));
        for (size_t i = 0; i < size; i += 4096)
            CHECK(p[i] == 1);
        memset(p + size, 1, more - size);
        size = more;
    }
    return p;
}

int main(void)
{
    bound_begin();
    /* The first rounds start the thread. */
    free(grow(SIZE));
    free(grow(SIZE));
    /* Each round would fault on all of its pages. On a busy machine a round may take so long that
     * pages are returned meanwhile, so the round with the fewest faults counts. */
    size_t all = SIZE / page_size(), fewest = SIZE;
    for (int i = 0; i < ROUNDS; i++) {
        size_t before = (size_t)page_faults();
        free(grow(SIZE));
        size_t seen = (size_t)page_faults() - before;
        fewest = seen < fewest ? seen : fewest;
    }
    printf("%zu faults of %zu\n", fewest, all);
    CHECK(fewest <= all / 4);
    char *small = grow(SIZE / 8);
    struct bound b = {.live = SIZE / 6, .metadata = heap_of(1) + pages_of_run(4 * SIZE / 1024)};
    /* An eighth more than is live, and what may wait at any time. */
    b.kept = b.live / 8 + MIB;
    comes_within("one stays small", b);
    free(small);
    b.live = 0;
    b.kept = MIB;
    comes_within("all is free", b);
    return 0;
}
