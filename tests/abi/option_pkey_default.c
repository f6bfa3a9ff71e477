// TOFT_PKEY in the default build: says that it is not for it, once, and nothing has a key.
// env: TOFT_PKEY=1
// build: default the other has the doors
// stderr: toft: TOFT_PKEY is for the secure build; going on without it
// libc: skip it has no such option
#include "../keyed.h"

int main(void)
{
    free(launder(malloc(100)));
    CHECK(!keyed_page(NULL));
    return 0;
}
