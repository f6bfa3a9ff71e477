// TOFT_PARTITIONS is rounded up to a power of two.
// run: 1 1
// run: 3 4
// run: 4096 4096
// libc: skip it has no partitions
// promise: 17
#include "statistic.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    anew_with(argv, "TOFT_PARTITIONS", argv[1]);
    CHECK(statistic("partitions") == atol(argv[2]));
    return 0;
}
