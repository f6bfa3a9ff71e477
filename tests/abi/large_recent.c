// Law 4, large blocks, with a reclaimer: what a program frees and soon wants again keeps its pages,
// as much as was live a moment ago; then they are returned to the OS.
// promise: 22
// env: TOFT_RECLAIM=thread
// env: TOFT_DECAY=2000
// timeout: 180
// libc: skip it has other bounds
// build: default the secure build maps each block anew
#include "bound.h"
#include "page_faults.h"

enum { N = 40, ROUNDS = 8 };
static const size_t SIZE = 3 << 20;
static char *block[N];

static void round_trip(void)
{
    for (int i = 0; i < N; i++) {
        CHECK(block[i] = malloc(SIZE));
        memset(block[i], 1, SIZE);
    }
    for (int i = 0; i < N; i++)
        free(block[i]);
}

int main(void)
{
    bound_begin();
    /* The first rounds start the thread. */
    round_trip();
    round_trip();
    size_t before = (size_t)page_faults();
    for (int i = 0; i < ROUNDS; i++)
        round_trip();
    /* Without what is kept, each round faults on all of its pages, or on huge ones of them. */
    size_t all = ROUNDS * (N * SIZE / page_size());
    size_t seen = (size_t)page_faults() - before;
    if (seen > all / 4) {
        printf("%zu faults of %zu\n", seen, all);
        return 1;
    }
    struct bound b = {.metadata = heap_of(1) + pages_of_run(2 * N * 4 * SIZE / 1024), .kept = MIB};
    comes_within("all is free", b);
    return 0;
}
