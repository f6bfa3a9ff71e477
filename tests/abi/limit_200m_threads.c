// Under RLIMIT_AS of 200 MB, nine threads allocate until nothing is left: every function fails with
// ENOMEM and no other effect, and after frees all of them work again.
// flags: -pthread
// ulimit: -v 204800
// timeout: 120
// promise: 26 27
#include "limit.h"

int main(void)
{
    exhaust_with_threads(9);
    return 0;
}
