// Law 4, when the time has passed: nothing waits any more, although every thread sleeps and none
// asks.
// build: default its sum knows no quarantine, and descriptors of half the size
// flags: -pthread
// env: TOFT_PARTITIONS=1
// env: TOFT_DECAY=50
// env: TOFT_RECLAIM=thread
// libc: skip it has other bounds
#include "bound_scatter.h"

int main(void)
{
    scatter();
    within("freed a moment ago", not_yet);
    comes_within("nobody asks", all_gone);
    /* One page each, at least, where blocks lie that far apart. */
    struct bound b = all_gone;
    b.claims = 0;
    b.metadata = 0;
    driven("nobody asks", b, b.live);
    wake_up();
    all_gone.claims = 0;
    comes_within("the threads have ended", all_gone);
    return 0;
}
