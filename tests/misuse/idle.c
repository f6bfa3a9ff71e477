// The secure build's reclaimer verifies the heap while the program does nothing.
// expect: signal ABRT
// libc: skip it verifies nothing
// twin: writes nothing
// promise: 12
// case: idle_overflow
// It names a live block behind which a byte was overwritten.
// stderr: toft: heap overflow: verify({p}): byte 0 behind this 100-byte block was overwritten (small slab, slot {n}, partition {n}; call site {addr})
// build: full the light one makes no pass over blocks
// case: idle_write_after_free
// It names a freed block that was written to, and that malloc does not hand out again.
// stderr: toft: write after free: verify({p}): byte 40 of this free 100-byte block was overwritten (small slab, slot {n}, partition {n}; call site {addr})
// build: full the light one does not clear what is freed
#include "common.h"

/* From 16 MiB on there is a reclaimer. */
enum { MANY = 300000, SIZE = 100 };

static char *block[MANY];

/* Both return the byte that is written. */
HELPER char *idle_overflow(void)
{
    announce("p", block[MANY / 2]);
    return block[MANY / 2] + SIZE;
}

HELPER char *idle_write_after_free(void)
{
    announce("p", block[1]);
    /* These frees push the first block out of the quarantine. Each page keeps live blocks. */
    for (int i = 1; i < MANY / 3; i += 3)
        free(launder(block[i]));
    return block[1] + 40;
}

int main(void)
{
    for (int i = 0; i < MANY; i++)
        CHECK((block[i] = launder(malloc(SIZE))));
    volatile char *byte = launder(CASE());
    /* A pass takes ten. */
    int seconds = 12;
    MISUSE(*byte = 7; seconds = 100;)
    CORRECT((void)byte;)
    while (seconds--)
        sleep(1);
    return END;
}
