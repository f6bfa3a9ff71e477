// As `verify_storm.c`, with the pattern in everything that is freed, so that all of it is looked
// at; and with the looks that TOFT_VERIFY makes from all threads.
// flags: -pthread
// env: TOFT_FILL=alloc,free
// env: TOFT_VERIFY=3000
// run: 8
// timeout: 120
// libc: skip it has no such function
// build: default it refuses the options
// aarch64: skip takes many minutes under qemu
#include "verify_storm.c"
