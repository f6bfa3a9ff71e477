// TOFT_SITES says whether sites are hashed or exact; without it that is so where the build and TOFT_PARTITIONS say so.
// run: hash 64 0
// run: exact 2048 1
// libc: skip it has no partitions
// promise: 15
#include "many_sites.h"

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    if (argc == 2) {
        free(at_site(0, 100));
        int (*stats)(int) = (int (*)(int))symbol("toft_stats_json");
        CHECK(stats);
        return stats(2);
    }
    CHECK(argc == 4);
    setenv("TOFT_SITES", argv[1], 1);
    static char text[1 << 16];
    CHECK(run_again("child", 2, text, sizeof text) == 0);
    char *at = strstr(text, "\"partitions\":");
    CHECK(at && atoi(at + 13) == atoi(argv[2]));
    at = strstr(text, "\"own_sites\":");
    CHECK(at && (atoi(at + 12) > 0) == atoi(argv[3]));
    return 0;
}
