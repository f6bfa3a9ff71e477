// The figures of `mallinfo2.c` are as true where blocks are guarded ones, all of them or as many as
// there is room for.
// promise: 22
// flags: -pthread
// env: TOFT_GUARDED=1
// libc: skip it has no such option
// build: default it refuses the option
#include "mallinfo2.c"
