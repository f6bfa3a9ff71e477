// atexit handlers, destructors and libc's own last writes allocate and free to the very end.
// promise: 24
#include "common.h"

static char *live[100];

static void work(void)
{
    for (int i = 0; i < 100; i++) {
        char *p = malloc((size_t)i * 700);
        CHECK(p);
        free(live[i]);
        live[i] = p;
    }
}

static void second(void)
{
    work();
    printf("written at the very end\n");
}

static void first(void)
{
    work();
    CHECK(atexit(second) == 0);
}

__attribute__((destructor)) static void last(void)
{
    work();
    for (int i = 0; i < 100; i++)
        free(live[i]);
}

int main(void)
{
    work();
    CHECK(atexit(first) == 0);
    /* More handlers than libc has room for without allocating. */
    for (int i = 0; i < 200; i++)
        CHECK(atexit(work) == 0);
    return 0;
}
