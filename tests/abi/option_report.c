// TOFT_REPORT_FD and TOFT_STATS: a line when the library has started, and at exit the statistics,
// the executable mappings and an end line, to that descriptor and to no other.
// libc: skip it has no such option
#include "common.h"

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        CHECK(malloc(12345));
        return 0;
    }
    setenv("TOFT_REPORT_FD", "7", 1);
    setenv("TOFT_STATS", "1", 1);
    static char text[1 << 20];
    int status = run_again("child", 7, text, sizeof text);
    CHECK(status == 0);
    const char *(*version)(void) = (const char *(*)(void))symbol("toft_version");
    CHECK(version);
    char ready[100];
    snprintf(ready, sizeof ready, "toft-ready %s ", version());
    CHECK(strncmp(text, ready, strlen(ready)) == 0);
    CHECK(atoi(text + strlen(ready)) > 0);
    char *json = strstr(text, "\n{\"toft\":\"");
    CHECK(json);
    static const char *const keys[] = {
        "pid", "partitions", "threads", "heaps", "allocations", "live_blocks", "live_bytes",
        "small_bytes", "medium_bytes", "large_bytes", "peak_bytes", "slabs", "mapped_bytes",
        "metadata_bytes", "remote_frees_pending", "misuse",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[64];
        snprintf(key, sizeof key, "\"%s\":", keys[i]);
        char *at = strstr(json, key);
        CHECK(at && at[strlen(key)] >= '0' && at[strlen(key)] <= '9');
    }
    CHECK(strstr(json, "\"sites\":[{\"site\":\"0x"));
    CHECK(strstr(json, "\nmap ") && strstr(json, "r-xp"));
    size_t n = strlen(text);
    CHECK(n > 10 && strcmp(text + n - 10, "\ntoft-end\n") == 0);
    return 0;
}
