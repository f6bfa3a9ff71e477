// Law 4, what is free and touched, while the reclaimer is off: no more than was ever in use and an
// eighth. A caller that asks has all of it back at once, that of sleeping threads, too.
// build: default its sum knows no quarantine, and descriptors of half the size
// flags: -pthread
// env: TOFT_PARTITIONS=1
// env: TOFT_RECLAIM=off
// libc: skip it has other bounds
#include "bound_scatter.h"

int main(void)
{
    scatter();
    within("freed a moment ago", not_yet);
    struct bound b = not_yet;
    b.kept = 0;
    b.claims = 0;
    driven("freed a moment ago", b, b.dirty);
    purge_all();
    within("asked for", all_gone);
    wake_up();
    purge_all();
    all_gone.claims = 0;
    within("asked for, and the threads have ended", all_gone);
    return 0;
}
