// What guarded_everything.c does, with a sample of the blocks, on the fast paths.
// flags: -pthread
// env: TOFT_GUARDED=100
// run: 1
// run: 4
// timeout: 120
#include "guarded_everything.c"
