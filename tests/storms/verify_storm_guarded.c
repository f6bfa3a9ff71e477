// As `verify_storm.c`, with blocks between guard pages among the others; and with the looks that
// TOFT_VERIFY makes from all threads.
// flags: -pthread
// env: TOFT_GUARDED=20
// env: TOFT_VERIFY=3000
// run: 8
// timeout: 120
// libc: skip it has no such function
// aarch64: skip takes many minutes under qemu
#include "verify_storm.c"
