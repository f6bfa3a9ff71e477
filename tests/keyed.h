/* Where the library's tables are, by the protection key that TOFT_PKEY gives them. */
#ifndef TOFT_TESTS_KEYED_H
#define TOFT_TESTS_KEYED_H

#include "common.h"

/* The first page that has a key other than the usual one; NULL where none has. With `containing`, whether that
 * page has one. */
HELPER char *keyed_page(const void *containing)
{
    static char text[1 << 22];
    slurp("/proc/self/smaps", text, sizeof text);
    uintptr_t begin = 0, end = 0;
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        char *after;
        uintptr_t first = strtoul(line, &after, 16);
        if (*after == '-' && after > line) {
            begin = first;
            end = strtoul(after + 1, NULL, 16);
        }
        if (strncmp(line, "ProtectionKey:", 14) == 0 && atoi(line + 14) > 0) {
            if (!containing)
                return (char *)begin;
            if (begin <= (uintptr_t)containing && (uintptr_t)containing < end)
                return (char *)begin;
        }
    }
    return NULL;
}

#endif
