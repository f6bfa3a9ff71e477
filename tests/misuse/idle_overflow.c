// The secure build's reclaimer verifies the heap while the program does nothing: it names a live
// block behind which a byte was overwritten.
// expect: signal ABRT
// stderr: toft: heap overflow: verify({p}): byte 0 behind this 100-byte block was overwritten (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip it verifies nothing
// twin: writes nothing
// promise: 12
// build: full the light one makes no pass over blocks
#include "common.h"

/* From 16 MiB on there is a reclaimer. */
enum { MANY = 300000, SIZE = 100 };

static char *block[MANY];

int main(void)
{
    for (int i = 0; i < MANY; i++)
        CHECK((block[i] = launder(malloc(SIZE))));
    announce("p", block[MANY / 2]);
    /* A pass takes ten. */
    int seconds = 12;
    MISUSE(((volatile char *)launder(block[MANY / 2]))[SIZE] = 7; seconds = 100;)
    while (seconds--)
        sleep(1);
    return END;
}
