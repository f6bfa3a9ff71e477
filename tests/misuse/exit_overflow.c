// An overflow of 4 000 bytes from a block that is never freed: with TOFT_VERIFY=exit it is reported
// when the program ends.
// env: TOFT_VERIFY=exit
// build: secure the default one does not look
// expect: signal ABRT
// stderr: toft: {re:heap overflow|wild write|write after free}: verify({re:.*}): {re:.*} was overwritten ({re:.*})
// libc: skip it has no such option
// twin: stays within the block
// promise: 12
#include "common.h"

enum { BLOCKS = 200 };

int main(void)
{
    /* The lowest of many is far from the guard behind their slab, at which the overflow would end. */
    unsigned char *lowest = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *p = launder(malloc(100));
        CHECK(p != NULL);
        if (lowest == NULL || p < lowest)
            lowest = p;
    }
    size_t bytes = 100;
    MISUSE(bytes += 4000;)
    memset(launder(lowest), 'x', bytes);
    return 0;
}
