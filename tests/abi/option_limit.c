// Under TOFT_LIMIT=64m each size, every byte written, until NULL with ENOMEM: what is resident
// beyond what was at the start is at most the limit and the tables. After frees there is as much
// again, and other sizes can have it. Smaller is always possible.
// env: TOFT_LIMIT=64m
// stderr-any: each process that it forks reports its first refusal
// libc: skip it has no limit
// promise: 26 27
// timeout: 120
#include "limit.h"

enum { LIMIT = 64 << 20, TABLES = 3 << 20 };

static size_t start;

static size_t take_all(size_t size, struct node **list)
{
    size_t got = 0;
    for (;;) {
        errno = 0;
        struct node *n = malloc(size);
        if (!n) {
            CHECK(errno == ENOMEM);
            break;
        }
        memset(n, 0x5A, size);
        n->next = *list;
        n->size = size;
        *list = n;
        got += size;
    }
    CHECK(rss_bytes() <= start + LIMIT + TABLES);
    return got;
}

static void one_size(size_t size)
{
    struct node *list = NULL;
    start = rss_bytes();
    size_t got = take_all(size, &list);
    announce_number("got", got);
    /* A slot is up to a third larger than the block, and descriptors are an eighth of the smallest. */
    CHECK(got > LIMIT / 2 && got < LIMIT);
    if (list) {
        /* With the byte that is looked at behind its head. */
        void *same = realloc(list, size / 2 + 1);
        CHECK(same);
        list = same;
        list->size = size / 2 + 1;
    }
    errno = 0;
    CHECK(!calloc(1, launder_size((size_t)LIMIT + 1)) && errno == ENOMEM);
    CHECK(!realloc(NULL, launder_size(LIMIT)));
    release(list);
    list = NULL;
    size_t again = take_all(size, &list);
    CHECK(again > got / 10 * 9);
    release(list);
    list = NULL;
    size_t other = take_all(size < 3000 ? 50000 : 300, &list);
    CHECK(other > LIMIT / 2);
    release(list);
}

int main(void)
{
    static const size_t sizes[] = {32, 100, 1000, 5000, 60000, 300 << 10, 2 << 20};
    free(malloc(1000));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            one_size(sizes[i]);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    return 0;
}
