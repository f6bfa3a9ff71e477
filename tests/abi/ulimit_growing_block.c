// With little of RLIMIT_AS left, a block grows from 40 bytes to 64 KiB, as long as that fits into
// what is left. A slab takes 64 or 512 KiB of addresses. Without room for one, the block gets
// single pages, and everything that works on a block works on this one.
// promise: 26 27
// aarch64: skip qemu takes no limit on addresses
#include "common.h"

enum { FIRST = 40, LAST = 64 << 10 };

static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages * page_size();
}

/* Grows a block by an eighth at a time. Returns its last size. */
static size_t grow(int by_malloc)
{
    size_t size = FIRST;
    char *p = malloc(size);
    CHECK(p);
    fill(p, size, 1);
    while (size < LAST) {
        size_t next = size + size / 8;
        char *q = by_malloc ? malloc(next) : realloc(p, next);
        if (!q) {
            CHECK(errno == ENOMEM);
            break;
        }
        if (by_malloc) {
            memcpy(q, p, size);
            free(p);
        }
        p = q;
        CHECK((uintptr_t)p % 16 == 0 && malloc_usable_size(p) >= next && filled(p, size, 1));
        fill(p, next, 1);
        size = next;
    }
    free(p);
    return size;
}

static void in_a_child(size_t left, int by_malloc)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        size_t limit = address_space() + left;
        struct rlimit as = {limit, limit};
        CHECK(setrlimit(RLIMIT_AS, &as) == 0);
        size_t size = grow(by_malloc);
        if (size < LAST)
            fprintf(stderr, "%zu bytes left: a block grew to %zu bytes\n", left, size);
        CHECK(size >= LAST);
        /* Blocks of the sizes that had no slab, at an alignment and zeroed, live together. */
        char *aligned = aligned_alloc(4096, 4096), *zero = calloc(3, 1000);
        CHECK(aligned && zero && (uintptr_t)aligned % 4096 == 0);
        for (int i = 0; i < 3000; i++)
            CHECK(zero[i] == 0);
        free(aligned);
        free(zero);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    for (size_t left = 256 << 10; left <= 4 << 20; left *= 2)
        for (int by_malloc = 0; by_malloc < 2; by_malloc++)
            in_a_child(left, by_malloc);
    return 0;
}
