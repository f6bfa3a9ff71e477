// A zero is written one byte past the end of a block of each size from 1 to 4096, as by a string
// that is a byte too long. No other block has the byte. Either the zero was there already, so that
// nothing is changed and the free is silent, or the free names it. Named are the sizes whose slot
// has one byte more, which docs/threats.md counts.
// build: secure the default build keeps no bytes after a block
// env: TOFT_REPORT=line
// libc: skip a neighbour or the heap has the byte
// twin: writes the last byte
// timeout: 60
// promise: 7
#include "common.h"

enum { SIZE_MOST = 4096, BLOCKS = 16, NAMED_TO_256 = 16, NAMED = 39 };

static unsigned char *block[BLOCKS];
static size_t size;

/* The block with the zero after it. */
static unsigned char *written(void)
{
    return block[BLOCKS / 2];
}

static void free_it(void)
{
    free(launder(written()));
    _exit(END);
}

static int is_named(void)
{
    static char text[65536], line[200];
    int status = in_child(free_it, text, sizeof text);
    snprintf(line, sizeof line,
             "toft: heap overflow: free(%p): byte 0 behind this %zu-byte block was overwritten",
             (void *)written(), size);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && !strncmp(text, line, strlen(line));
}

int main(void)
{
    size_t harmless = 0, named = 0, named_to_256 = 0;
    for (size = 1; size <= SIZE_MOST; size++) {
        for (int i = 0; i < BLOCKS; i++) {
            block[i] = launder(malloc(size));
            CHECK(block[i]);
            memset(block[i], 0xAA, size);
        }
        unsigned char *end = written() + size;
        CORRECT(end--;)
        unsigned char before = *end;
        *end = 0;
        for (int i = 0; i < BLOCKS; i++)
            for (size_t at = 0; at < size; at++)
                CHECK(block[i][at] == 0xAA || block[i] + at == end);
#ifndef TWIN
        CHECK(end == written() + size);
        if (before) {
            if (!is_named()) {
                announce_number("size", size);
                CHECK(!"the free named it");
            }
            named++;
            named_to_256 += size <= 256;
            *end = before;
        } else
            harmless++;
#endif
        (void)before;
        for (int i = 0; i < BLOCKS; i++)
            free(launder(block[i]));
    }
    announce_number("harmless", harmless);
    announce_number("named", named);
    MISUSE(CHECK(named_to_256 == NAMED_TO_256 && named == NAMED && harmless == SIZE_MOST - NAMED);)
    (void)named_to_256;
    (void)is_named;
    return 0;
}
