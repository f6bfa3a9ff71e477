// In every size class, from 1 byte to 8 MiB, a bad free is named at the call. It is the free of a
// freed block, at once or later, of a pointer into a block, aligned or not, or of the byte before
// it. A realloc and a size query of such are named, too. Each is tried in a child, in sizes so near
// that no class is passed over.
// run: twice
// run: late
// run: at 1
// run: at 4
// run: at 8
// run: at 16
// run: at 4096
// run: half
// run: last
// run: before
// run: into-freed
// run: realloc-freed
// run: realloc-at 1
// run: realloc-at 16
// run: usable-freed
// run: usable-at 16
// env: TOFT_REPORT=line
// libc: skip glibc says it in other words or not at all
// twin: frees the block once
// timeout: 60
// promise: 4
#include "common.h"

enum { SIZE_MOST = 8 << 20 };

/* What a run does: its name, the call that it makes with which kind of pointer, and where that
 * pointer is. */
enum where { FREED, FREED_LATE, AT, HALF, LAST, BEFORE, INTO_FREED };
enum call { FREE, REALLOC, USABLE };
static const struct {
    const char *name;
    enum where where;
    enum call call;
} kinds[] = {
    {"twice", FREED, FREE},
    {"late", FREED_LATE, FREE},
    {"at", AT, FREE},
    {"half", HALF, FREE},
    {"last", LAST, FREE},
    {"before", BEFORE, FREE},
    {"into-freed", INTO_FREED, FREE},
    {"realloc-freed", FREED, REALLOC},
    {"realloc-at", AT, REALLOC},
    {"usable-freed", FREED, USABLE},
    {"usable-at", AT, USABLE},
};
static const char *const name[] = {"free", "realloc", "malloc_usable_size"};
static enum where where;
static enum call call;
static size_t size, place;
static char *block;

/* The distance from the block to the pointer that is passed. */
static ptrdiff_t distance(void)
{
    switch (where) {
    case AT: return (ptrdiff_t)place;
    case HALF: return (ptrdiff_t)size / 2;
    case LAST: return (ptrdiff_t)size - 1;
    case BEFORE: return -1;
    case INTO_FREED: return 1;
    default: return 0;
    }
}

static void bad_call(void)
{
    char *q = (char *)launder(block + distance());
    if (where == FREED || where == FREED_LATE || where == INTO_FREED)
        free(block);
    for (int i = 0; i < 3 && where == FREED_LATE; i++)
        free(launder(malloc(size)));
    MISUSE(
        if (call == FREE)
            free(launder(q));
        else if (call == REALLOC)
            (void)!launder(realloc(launder(q), size + 1));
        else
            (void)launder_size(malloc_usable_size(launder(q)));
    )
    CORRECT((void)q;)
    _exit(END);
}

static int is_named(void)
{
    static char text[65536], line[200];
    int status = in_child(bad_call, text, sizeof text);
    CORRECT(return WIFEXITED(status) && WEXITSTATUS(status) == END && !text[0];)
    int is_double = where == FREED || where == FREED_LATE;
    snprintf(line, sizeof line, "toft: %s free: %s(%p): ", is_double ? "double" : "invalid",
             name[call], (void *)(block + distance()));
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && !strncmp(text, line, strlen(line));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 || argc == 3);
    place = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    size_t kind = 0, tried = 0;
    while (kind < sizeof kinds / sizeof *kinds && strcmp(kinds[kind].name, argv[1]))
        kind++;
    CHECK(kind < sizeof kinds / sizeof *kinds);
    where = kinds[kind].where;
    call = kinds[kind].call;
    /* Classes are 16 bytes apart up to 256, and 256 bytes or a sixteenth of the size above. */
    for (size = 1; size <= SIZE_MOST; size += size < 256 ? 5 : size / (size <= 32768 ? 64 : 16)) {
        /* Such a pointer may be another block's. */
        if (where >= AT && distance() % 16 == 0 && (size_t)distance() - 1 >= size - 1)
            continue;
        block = launder(malloc(size));
        char *beside = launder(malloc(size));
        CHECK(block && beside);
        if (!is_named()) {
            announce_number("size", size);
            CHECK(!"the child named it");
        }
        tried++;
        free(beside);
        free(block);
    }
    announce_number("tried", tried);
    CHECK(tried > 200);
    return 0;
}
