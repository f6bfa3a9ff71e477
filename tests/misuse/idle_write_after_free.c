// The secure build's reclaimer verifies the heap while the program does nothing: it names a freed
// block that was written to, and that malloc does not hand out again.
// expect: signal ABRT
// stderr: toft: write after free: verify({p}): byte 40 of this free 100-byte block was overwritten (small slab, slot {n}, partition {n}; call site {addr})
// libc: skip it verifies nothing
// twin: writes nothing
// promise: 12
// build: full the light one does not clear what is freed
#include "common.h"

/* From 16 MiB on there is a reclaimer. */
enum { MANY = 300000, SIZE = 100 };

static char *block[MANY];

int main(void)
{
    for (int i = 0; i < MANY; i++)
        CHECK((block[i] = launder(malloc(SIZE))));
    announce("p", block[1]);
    /* These frees push the first block out of the quarantine. Each page keeps live blocks. */
    for (int i = 1; i < MANY / 3; i += 3)
        free(launder(block[i]));
    /* A pass takes ten. */
    int seconds = 12;
    MISUSE(((volatile char *)launder(block[1]))[40] = 7; seconds = 100;)
    while (seconds--)
        sleep(1);
    return END;
}
