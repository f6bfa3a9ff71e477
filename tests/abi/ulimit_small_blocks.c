// Under `ulimit -v` blocks get most of the addresses that the system grants, whatever their size: a
// slab gives up the addresses after its last slot. What was freed can be allocated again.
// promise: 26 27
// ulimit: -v 300000
// aarch64: skip qemu takes no limit on addresses
// timeout: 120
#include "common.h"

enum { LIMIT = 300000 << 10 };

/* A list, because an array would need addresses, too. */
struct block {
    struct block *next;
};

/* The only call site. */
__attribute__((noinline)) static struct block *get(size_t size, struct block *next)
{
    struct block *p = malloc(size);
    if (p)
        p->next = next;
    return p;
}

static struct block *fill_up(size_t size, size_t *count)
{
    struct block *all = NULL, *p;
    errno = 0;
    for (*count = 0; (p = get(size, all)); ++*count)
        all = p;
    CHECK(errno == ENOMEM);
    return all;
}

static void check(size_t size, size_t percent)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid != 0) {
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        return;
    }
    size_t count, freed = 0, again;
    struct block *all = fill_up(size, &count);
    CHECK(count * size >= LIMIT / 100 * percent);
    /* Every second block. */
    for (struct block *p = all; p && p->next; p = p->next, freed++) {
        struct block *gone = p->next;
        p->next = gone->next;
        free(gone);
    }
    for (; freed; freed--)
        CHECK((all = get(size, all)));
    for (struct block *next; all; all = next) {
        next = all->next;
        free(all);
    }
    fill_up(size, &again);
    CHECK(again >= count - count / 50);
    _exit(0);
}

int main(void)
{
    check(40, 50);
    check(1100, 60);
    check(2000, 70);
    return 0;
}
