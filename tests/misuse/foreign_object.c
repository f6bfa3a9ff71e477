// free of an address in the program's data, or of a function.
// expect: signal ABRT
// stderr: toft: invalid free: free({q}): not a block of this allocator
// libc: skip glibc says it in other words or not at all
// twin: frees a copy
// promise: 4
// case: foreign_bss -DOBJECT=zeroed
// case: foreign_data -DOBJECT=initialised
// case: foreign_rodata -DOBJECT=literal
// case: foreign_code -DOBJECT=main
#include "common.h"

HELPER char zeroed[64], initialised[64] = "data";
HELPER const char literal[] = "a literal of the program";

int main(void)
{
    void *object = launder((void *)OBJECT);
    announce("q", object);
    MISUSE(free(object);)
    CORRECT(free(memcpy(launder(malloc(16)), object, 16));)
    return END;
}
