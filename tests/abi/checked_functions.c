// memcpy, mempcpy, memmove, memset and bzero with checks do what they do without, to any kind of
// memory, overlapping or not.
// checked: what is tested
// flags: -D_FORTIFY_SOURCE=0
#include "common.h"
#include <strings.h>

static void each(char *p, size_t n)
{
    static char model[5000];
    for (size_t i = 0; i < n; i++)
        model[i] = p[i] = (char)(i * 7);
    for (size_t length = 0; length + 40 < n; length += 1 + length / 3) {
        for (size_t from = 0; from < 40; from += 13)
            for (size_t to = 0; to < 40; to += 9) {
                static char copy[5000];
                for (size_t i = 0; i < length; i++)
                    copy[i] = model[from + i];
                for (size_t i = 0; i < length; i++)
                    model[to + i] = copy[i];
                CHECK(memmove(p + to, p + from, launder_size(length)) == p + to);
                for (size_t i = 0; i < n; i++)
                    CHECK(p[i] == model[i]);
            }
        char other[5000];
        CHECK(memcpy(other, p, launder_size(length)) == other);
        for (size_t i = 0; i < length; i++)
            CHECK(other[i] == p[i]);
        CHECK(mempcpy(other, p + 1, launder_size(length)) == other + length);
        for (size_t i = 0; i < length; i++)
            CHECK(other[i] == p[1 + i]);
        CHECK(memset(p + 3, (int)length + 256, launder_size(length)) == p + 3);
        for (size_t i = 0; i < length; i++)
            model[3 + i] = (char)length;
        bzero(p + 5, launder_size(length / 2));
        for (size_t i = 0; i < length / 2; i++)
            model[5 + i] = 0;
        for (size_t i = 0; i < n; i++)
            CHECK(p[i] == model[i]);
    }
}

int main(void)
{
    static char data[3000];
    char local[2500], *small = malloc(1000), *medium = malloc(4000);
    each(data, sizeof data);
    each(local, sizeof local);
    each(small, 1000);
    each(medium, 4000);
    size_t usable = malloc_usable_size(small);
    memset(small, 1, launder_size(usable));
    memcpy(small + usable, small, launder_size(0));
    memset(NULL, 1, launder_size(0));
    free(small);
    free(medium);
    for (int i = 0; i < 1000; i++) {
        char *p = calloc(1, (size_t)i * 10), *q = realloc(p, (size_t)i * 20 + 1);
        CHECK(q);
        free(q);
    }
    return 0;
}
