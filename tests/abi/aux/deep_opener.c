// flags: -Wl,--enable-new-dtags,-rpath,$ORIGIN
/* A library that opens what lies beside it. */
#include "common.h"

void *open_from_here(const char *name, int mode)
{
    void *opened = dlopen(name, mode);
    NO_TAIL_CALL();
    return opened;
}
