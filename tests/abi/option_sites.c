// TOFT_PARTITIONS chooses hashed or exact sites, and how many partitions there are.
// run: 64 64 0
// run: 100 128 0
// run: exact 2048 1
// run: exact:100 128 1
// libc: skip it has no partitions
// promise: 15
#include "many_sites.h"

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    anew_with(argv, "TOFT_PARTITIONS", argv[1]);
    free(at_site(0, 100));
    CHECK(statistic("partitions") == atol(argv[2]));
    CHECK((statistic("own_sites") > 0) == atol(argv[3]));
    return 0;
}
