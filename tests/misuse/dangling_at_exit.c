// TOFT_DANGLING=1 looks when the program ends; the guarded block has its own report, with both
// stacks.
// env: TOFT_DANGLING=1
// env: TOFT_GUARDED=1
// env: TOFT_REPORT=line
// stderr: toft: dangling pointer: look({global}): a word of {re:.*/dangling_at_exit} leads to byte 3 of the freed {size}-byte block at {p} (guarded, slot 0, partition 0; call site {addr})
// libc: skip it has no such option
// expect: exit 0
// twin: clears it
// promise: 28
#include "dangling.h"

static char *global = (char *)1;

NOINLINE void fill_in(void)
{
    char *p = launder(malloc(100));
    announce_block(p);
    announce("global", &global);
    global = p + 3;
    free(p);
    NO_TAIL_CALL();
}

int main(void)
{
    fill_in();
    CORRECT(global = NULL;)
    clear_stack();
    return 0;
}
