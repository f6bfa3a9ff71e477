// Eight bytes are written at any offset of a freed block of 100 or of 1000 bytes. The first of them
// is named before the block is handed out again, or by the verification at exit where nothing is
// allocated any more. Each offset is tried in a child.
// build: full the light one does not clear what is freed
// run: 100 reuse
// run: 1000 reuse
// run: 100 exit
// run: 1000 exit
// env: TOFT_VERIFY=exit
// env: TOFT_REPORT=line
// libc: skip it says nothing
// twin: writes before it frees
// timeout: 60
// promise: 12
#include "common.h"

enum { WRITTEN = 8 };

static size_t size, offset;
static int is_reused;
static unsigned char *block;

NOINLINE void *allocate(size_t n)
{
    void *p = malloc(n);
    NO_TAIL_CALL();
    return p;
}

static void write_late(void)
{
    CORRECT(memset(block + offset, 0x41, WRITTEN);)
    free(block);
    MISUSE(memset((unsigned char *)launder(block) + offset, 0x41, WRITTEN);)
    if (!is_reused)
        exit(END);
    for (int i = 0; i < 50000; i++)
        free(launder(allocate(size)));
    _exit(END);
}

/* Whichever call it is that names it. */
static int is_named(void)
{
    static const char what[] = "toft: write after free: ";
    static char text[65536], block_and_byte[200];
    int status = in_child(write_late, text, sizeof text);
    CORRECT(return WIFEXITED(status) && WEXITSTATUS(status) == END && !text[0];)
    snprintf(block_and_byte, sizeof block_and_byte,
             "(%p): byte %zu of this free %zu-byte block was overwritten", (void *)block, offset,
             malloc_usable_size(block));
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
           !strncmp(text, what, strlen(what)) && strstr(text, block_and_byte);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size = strtoul(argv[1], NULL, 10);
    is_reused = argv[2][0] == 'r';
    block = launder(allocate(size));
    CHECK(block);
    for (offset = 0; offset + WRITTEN <= size; offset++)
        if (!is_named()) {
            announce_number("offset", offset);
            CHECK(!"the child named it");
        }
    return 0;
}
