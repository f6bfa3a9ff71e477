/* What the library says of itself: a number of toft_stats_json, by its name. */
#ifndef TOFT_TESTS_STATISTIC_H
#define TOFT_TESTS_STATISTIC_H
#include "common.h"

HELPER long statistic(const char *name)
{
    static char text[1 << 16];
    int (*stats)(int) = (int (*)(int))symbol("toft_stats_json");
    CHECK(stats);
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(stats(ends[1]) == 0);
    close(ends[1]);
    size_t have = 0;
    ssize_t got;
    while ((got = read(ends[0], text + have, sizeof text - 1 - have)) > 0)
        have += got;
    close(ends[0]);
    text[have] = 0;
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    char *at = strstr(text, key);
    CHECK(at);
    return atol(at + strlen(key));
}

#endif
