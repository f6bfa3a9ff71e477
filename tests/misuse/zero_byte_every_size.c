// A zero is written one byte past the end of a block, as by a string that is a byte too long. No
// other block has the byte, and the free names it: for each size from 1 to 4096, for sizes at the
// ends of larger classes, and for each function that gives or changes a block.
// build: secure the default build keeps no bytes after a block
// env: TOFT_REPORT=line
// libc: skip a neighbour or the heap has the byte
// twin: writes the last byte
// timeout: 300
// promise: 7
#include "common.h"

enum { SIZE_MOST = 4096, BLOCKS = 16, LARGE_LEAST = 65536 };

static void *shrunk(size_t size)
{
    return realloc(malloc(size + size / 3 + 1), size);
}

static void *grown(size_t size)
{
    return realloc(malloc(size - 1), size);
}

static void *moved(size_t size)
{
    return reallocarray(malloc(1), 1, size);
}

static void *cleared(size_t size)
{
    return calloc(1, size);
}

static void *at_64(size_t size)
{
    return memalign(64, size);
}

static void *at_4096(size_t size)
{
    return aligned_alloc(4096, size);
}

static void *at_65536(size_t size)
{
    void *p;
    CHECK(!posix_memalign(&p, 65536, size));
    return p;
}

static void *(*const makers[])(size_t) = {malloc,  cleared,  shrunk, grown,
                                          moved,   at_64,    at_4096, at_65536, valloc};
/* At the ends of classes, and large ones. */
static const size_t sizes[] = {
    15,    16,    17,    39,    100,   255,   256,    1023,   1024,   1039,  1040,
    4097,  4352,  5119,  5120,  8191,  8192,  8448,   16383,  16384,  16640, 24576,
    32767, 32768, 33024, 49152, 65535, 65536, 65792,  70000,  98304,  100000,
    131070, 131071, 131072, 131073, 200003, 300001, 1000001,
};

static unsigned char *block;

static void free_it(void)
{
    free(launder(block));
    _exit(END);
}

/* The zero is the only write after the block: the free of a child names it. */
static void check(size_t maker, size_t size)
{
    unsigned char *end = block + size;
    CORRECT(end--;)
    unsigned char before = *end;
    *end = 0;
    char text[65536], line[200];
    int status = in_child(free_it, text, sizeof text);
    snprintf(line, sizeof line,
             "toft: heap overflow: free(%p): byte 0 behind this %zu-byte block was overwritten",
             (void *)block, size);
    int right = 0;
    CORRECT(right = WIFEXITED(status) && WEXITSTATUS(status) == END && !text[0];)
    MISUSE(right = before && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;)
    MISUSE(right = right && !strncmp(text, line, strlen(line));)
    if (!right) {
        fprintf(stderr, "maker %zu, size %zu: status %#x, %s\n", maker, size, (unsigned)status,
                text);
        CHECK(!"the free names it");
    }
    *end = before;
}

int main(void)
{
    for (size_t size = 1; size <= SIZE_MOST; size++) {
        unsigned char *blocks[BLOCKS];
        for (int i = 0; i < BLOCKS; i++)
            memset(blocks[i] = launder(malloc(size)), 0xAA, size);
        block = blocks[BLOCKS / 2];
        check(0, size);
        for (int i = 0; i < BLOCKS; i++) {
            for (size_t at = 0; at < size; at++)
                CHECK(blocks[i][at] == 0xAA);
            free(launder(blocks[i]));
        }
    }
    for (size_t maker = 0; maker < sizeof makers / sizeof *makers; maker++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            CHECK((block = launder(makers[maker](sizes[i]))));
            /* A large block may end where a page begins that is not mapped. */
            int may_be_large = sizes[i] >= LARGE_LEAST || makers[maker] == at_65536;
            if (!may_be_large || (uintptr_t)(block + sizes[i]) % page_size() != 0)
                check(maker, sizes[i]);
            free(block);
        }
    return 0;
}
