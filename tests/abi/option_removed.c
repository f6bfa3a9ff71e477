// An option that was removed is reported once, with what to use in its place, and the program goes
// on. The twin sets none, and no line is printed.
// twin: sets no removed option
// stderr: toft: TOFT_SLAB_KEEP was removed; nothing replaces it
// stderr: toft: TOFT_SITES was removed; use TOFT_PARTITIONS=exact, or a number to hash sites
// libc: skip it has no such option
#include "common.h"

int main(int argc, char **argv)
{
    (void)argc;
#ifndef TWIN
    setenv("TOFT_SLAB_KEEP", "8m", 1);
    anew_with(argv, "TOFT_SITES", "exact");
#else
    (void)argv;
#endif
    CHECK(malloc(100));
    return 0;
}
