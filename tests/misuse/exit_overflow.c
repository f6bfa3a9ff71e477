// An overflow from a block that is never freed: with TOFT_VERIFY=exit it is reported when the
// program ends. The bytes that are written may all be zero, and so may the block.
// run: x 4000
// run: 0 4000
// run: 0 8
// run: 0 4000 zeroed
// run: 0 8 zeroed
// env: TOFT_VERIFY=exit
// build: secure the default one does not look
// expect: signal ABRT
// stderr: toft: {re:heap overflow|wild write|write after free}: verify({re:.*}): {re:.*} was overwritten ({re:.*})
// libc: skip it has no such option
// twin: stays within the block
// promise: 12
#include "common.h"

enum { BLOCKS = 200 };

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    int value = argv[1][0] == '0' ? 0 : argv[1][0];
    /* The lowest of many is far from the guard behind their slab, at which the overflow would end. */
    unsigned char *lowest = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *p = launder(malloc(100));
        CHECK(p != NULL);
        memset(p, argc == 3, 100);
        if (lowest == NULL || p < lowest)
            lowest = p;
    }
    size_t bytes = 100;
    MISUSE(bytes += strtoul(argv[2], NULL, 10);)
    memset(launder(lowest), value, bytes);
    return 0;
}
