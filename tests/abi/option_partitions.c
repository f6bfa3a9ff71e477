// TOFT_PARTITIONS is rounded up to a power of two.
// run: 1 1
// run: 3 4
// run: 4096 4096
// libc: skip it has no partitions
// promise: 17
#include "common.h"

int main(int argc, char **argv)
{
    if (argc == 2) {
        int (*stats)(int) = (int (*)(int))symbol("toft_stats_json");
        CHECK(stats);
        return stats(2);
    }
    CHECK(argc == 3);
    setenv("TOFT_PARTITIONS", argv[1], 1);
    static char text[1 << 16];
    CHECK(run_again("child", 2, text, sizeof text) == 0);
    char *at = strstr(text, "\"partitions\":");
    CHECK(at && atoi(at + 13) == atoi(argv[2]));
    return 0;
}
