// RLIMIT_AS lowered to 800 MB when the program already runs: threads meet the limit as ENOMEM, and
// allocation works again after frees.
// flags: -pthread
// timeout: 120
// promise: 26 27
#include "limit.h"

int main(void)
{
    free(malloc(1000));
    struct rlimit limit = {800 << 20, 800 << 20};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    exhaust_with_threads(4);
    return 0;
}
