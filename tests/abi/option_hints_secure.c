// The secure build keeps all sites apart, whatever hints say, and says so once.
// env: TOFT_HINTS=/tmp/toft-missing-hints
// build: secure the default one follows them
// stderr: toft: TOFT_HINTS=/tmp/toft-missing-hints is not for the secure build; using none
// promise: 29
#include "many_sites.h"

int main(void)
{
    CHECK((uintptr_t)at_site(0, 64) >> 16 != (uintptr_t)at_site(1, 64) >> 16);
    CHECK(statistic("grouped_sites") == 0 && statistic("own_sites") > 1);
    return 0;
}
