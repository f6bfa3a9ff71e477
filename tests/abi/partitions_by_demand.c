// A process begins with few partitions and gets more as its heap grows. A number that was asked for
// is in use from the start.
// libc: skip it has no partitions
// promise: 17
// build: default in the secure builds each call site has its own
// case: partitions_by_demand -DFIRST=8 -DLAST=64
// case: partitions_asked_for -DFIRST=16 -DLAST=16
// env: TOFT_PARTITIONS=16
#include "statistic.h"

enum { BLOCKS = 1 << 20, SIZE = 64 };

int main(void)
{
    CHECK(statistic("partitions_in_use") == FIRST);
    long before = FIRST;
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(launder(malloc(SIZE)));
        if (i % (BLOCKS / 64) == 0) {
            long now = statistic("partitions_in_use");
            /* No more than one for each filled MiB, and never fewer than before. */
            CHECK(now >= before && (now == FIRST || now <= 2 * (1 + (long)i * SIZE / (1 << 20))));
            before = now;
        }
    }
    CHECK(statistic("partitions_in_use") == LAST);
    return 0;
}
