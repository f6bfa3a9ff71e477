// malloc_info writes one XML document with the true number of bytes, and refuses options.
// promise: 22
#include "common.h"

static size_t last_number_after(const char *text, const char *what)
{
    const char *at = NULL;
    for (const char *next = text; (next = strstr(next, what)); next++)
        at = next;
    CHECK(at);
    return strtoul(at + strlen(what), NULL, 10);
}

static size_t figures(char *text, size_t size)
{
    FILE *f = fmemopen(text, size, "w");
    CHECK(f);
    CHECK(malloc_info(0, f) == 0);
    CHECK(fclose(f) == 0);
    CHECK(strncmp(text, "<malloc version=\"", 17) == 0);
    CHECK(strstr(text, "</malloc>"));
    int depth = 0;
    for (char *c = text; *c; c++)
        if (*c == '<')
            depth += c[1] == '/' ? -1 : 1;
        else if (*c == '>' && c[-1] == '/')
            depth--;
    CHECK(depth == 0);
    return last_number_after(text, "<system type=\"current\" size=\"");
}

int main(void)
{
    static char text[1 << 18];
    size_t before = figures(text, sizeof text);
    static void *block[3000];
    for (int i = 0; i < 3000; i++)
        CHECK((block[i] = malloc(10000)));
    size_t with = figures(text, sizeof text);
    CHECK(with >= before + 25000000);
    CHECK(with <= before + 80000000);
    for (int i = 0; i < 3000; i++)
        free(block[i]);
    errno = 0;
    CHECK(malloc_info(1, stdout) == EINVAL);
    return 0;
}
