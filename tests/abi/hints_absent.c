// Without hints nothing of them is there: sites are hashed, and none is grouped. Correct programs
// of the shape of hints_followed.c.
// build: default the secure build keeps all sites apart
// libc: skip it has no partitions
// env: TOFT_ON_MISUSE=warn
// env: TOFT_PARTITIONS=64
// promise: 15
#include "hints.h"

int main(void)
{
    long first = partition_of_site(0);
    int same = 0;
    for (int i = 1; i < 200; i++)
        same += partition_of_site(i) == first;
    /* Of 64 partitions each has some three of 200. */
    CHECK(same < 30);
    CHECK(statistic("partitions") == 64);
    CHECK(statistic("grouped_sites") == 0 && statistic("own_sites") == 0);
    return 0;
}
