// RLIMIT_AS set to 96 MB above what the process has: each size, until NULL with ENOMEM, gets a fair
// share of the 96 MB, and after frees as much again.
// promise: 26 27
// timeout: 120
#include "limit.h"

static size_t size;

static size_t all_there_is(void)
{
    struct node *list = exhaust(size);
    size_t got = 0;
    for (struct node *n = list; n; n = n->next)
        got += n->size;
    full_realloc();
    release(list);
    return got;
}

static void one_size(void)
{
    free(malloc(1000));
    size_t vsz = vsz_bytes();
    struct rlimit limit = {vsz + (96 << 20), vsz + (96 << 20)};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    size_t first = all_there_is(), again = all_there_is();
    /* What is asked is usability, not efficiency at the limit: of the address space of a small slab,
     * blocks of 32 bytes use an eighth. */
    announce_number("first", first);
    CHECK(first > (10 << 20));
    CHECK(again > first / 2);
}

int main(void)
{
    static const size_t sizes[] = {32, 100, 1000, 5000, 60000, 300 << 10, 2 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char text[1000];
        size = sizes[i];
        int status = in_child(one_size, text, sizeof text);
        dprintf(2, "%s", text);
        CHECK(status == 0);
    }
    return 0;
}
