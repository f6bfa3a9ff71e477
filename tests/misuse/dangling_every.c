// TOFT_DANGLING=100 looks after every hundredth allocation as well as at the end.
// env: TOFT_DANGLING=100
// env: TOFT_REPORT=line
// stderr: toft: dangling pointer: look({global}): a word of {re:.*/dangling_every} leads to byte 0 of the freed {size}-byte block at {p} (small, slot {n}, partition {n}; call site {addr})
// libc: skip it has no such option
// twin: clears it
// promise: 28
#include "dangling.h"

static char *global = (char *)1;

NOINLINE void fill_in(void)
{
    char *p = launder(malloc(100));
    announce_block(p);
    announce("global", &global);
    global = p;
    free(p);
    NO_TAIL_CALL();
}

int main(void)
{
    static char *block[101];
    fill_in();
    CORRECT(global = NULL;)
    clear_stack();
    for (int i = 0; i < 101; i++)
        block[i] = launder(malloc(2000));
    global = NULL;
    for (int i = 0; i < 101; i++) {
        free(block[i]);
        block[i] = NULL;
    }
    clear_stack();
    return 0;
}
