// A call site that allocates pointers and one that allocates buffers of the same size never share a
// page, whatever lives and whatever is freed, in whatever thread, also in one that starts after
// others have exited. Nor do two kinds of blocks that one function allocates, if it gives them
// tokens.
// build: secure each call site has a separate partition there
// flags: -pthread
// run: 24 sites
// run: 64 sites
// run: 1000 sites
// run: 6000 sites
// run: 60000 sites
// run: 24 tokens
// run: 1000 tokens
// timeout: 120
// libc: skip it gives anything to anyone
// promise: 18
#include "common.h"

enum { POINTERS, BUFFERS, KINDS, BLOCKS = 3000, ROUNDS = 6, THREADS = 2, PAGES = 1 << 21 };

static size_t size;
static int by_token;
static void *(*malloc_at)(size_t, uint64_t);

/* The pages that blocks of each kind have had. */
static uintptr_t page[KINDS][PAGES];
static size_t pages[KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void note(int kind, void *block)
{
    uintptr_t first = (uintptr_t)block >> 12, last = ((uintptr_t)block + size - 1) >> 12;
    CHECK(pthread_mutex_lock(&lock) == 0);
    for (uintptr_t at = first; at <= last; at++) {
        CHECK(pages[kind] < PAGES);
        page[kind][pages[kind]++] = at;
    }
    CHECK(pthread_mutex_unlock(&lock) == 0);
}

NOINLINE void *wrapper(uint64_t token)
{
    void *p = malloc_at(size, token);
    NO_TAIL_CALL();
    return p;
}

NOINLINE void *pointers(void)
{
    void *p = by_token ? wrapper(1) : malloc(size);
    NO_TAIL_CALL();
    return p;
}

NOINLINE void *buffers(void)
{
    void *p = by_token ? wrapper(2) : malloc(size);
    NO_TAIL_CALL();
    return p;
}

static void *work(void *arg)
{
    static __thread void *block[KINDS][BLOCKS];
    struct rng r = {(uint64_t)(uintptr_t)arg + 1};
    size_t blocks = size > 4096 ? BLOCKS / 20 : BLOCKS;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < 2 * blocks; i++) {
            int kind = (int)rng_below(&r, KINDS);
            void **at = &block[kind][rng_below(&r, blocks)];
            free(*at);
            CHECK((*at = launder(kind == POINTERS ? pointers() : buffers())));
            note(kind, *at);
        }
        /* Once half of each is freed, once all of one. */
        for (size_t i = 0; i < blocks; i++)
            for (int kind = 0; kind < KINDS; kind++)
                if (round % 2 ? kind == round / 2 % 2 : i % 2) {
                    free(block[kind][i]);
                    block[kind][i] = NULL;
                }
        if (round == ROUNDS / 2)
            purge_all();
    }
    for (size_t i = 0; i < blocks; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            free(block[kind][i]);
            block[kind][i] = NULL;
        }
    return arg;
}

static int by_address(const void *a, const void *b)
{
    const uintptr_t *p = a, *q = b;
    return (*p > *q) - (*p < *q);
}

static size_t pages_of_both(void)
{
    size_t both = 0, j = 0;
    for (int kind = 0; kind < KINDS; kind++)
        qsort(page[kind], pages[kind], sizeof page[kind][0], by_address);
    for (size_t i = 0; i < pages[POINTERS]; i++) {
        while (j < pages[BUFFERS] && page[BUFFERS][j] < page[POINTERS][i])
            j++;
        both += j < pages[BUFFERS] && page[BUFFERS][j] == page[POINTERS][i];
    }
    return both;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size = strtoul(argv[1], NULL, 10);
    by_token = strcmp(argv[2], "tokens") == 0;
    CHECK((malloc_at = (void *(*)(size_t, uint64_t))symbol("toft_malloc_at")));
    for (uintptr_t generation = 0; generation < 3; generation++) {
        pthread_t thread[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            thread[i] = spawn(work, (void *)(generation * THREADS + i));
        work((void *)(generation + 100));
        for (int i = 0; i < THREADS; i++)
            join(thread[i]);
    }
    CHECK(pages_of_both() == 0 && pages[POINTERS] > 1000 && pages[BUFFERS] > 1000);
    if (size >= 4096)
        return 0;
    /* Two kinds that one site allocates do share: what is looked for would be seen. */
    pages[POINTERS] = pages[BUFFERS] = 0;
    for (int i = 0; i < BLOCKS; i++)
        note(i % KINDS, launder(pointers()));
    CHECK(pages_of_both() != 0);
    return 0;
}
