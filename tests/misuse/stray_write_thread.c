// A stray write by another thread than the one that began, while the first allocates.
// flags: -pthread
// env: TOFT_PKEY=1
// build: secure it has the doors
// expect: signal ABRT
// stderr: toft: stray access: write({p}): the allocator's own tables are there
// libc: skip it has no such option
// machine: pkeys it is about them
// twin: allocates, too
// promise: 1
#include "keyed.h"

static char *tables;

static void *stray(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++)
        free(launder(malloc((size_t)i)));
    MISUSE(((volatile char *)launder(tables))[64] = 1;)
    return NULL;
}

int main(void)
{
    tables = keyed_page(NULL);
    CHECK(tables);
    announce("p", tables + 64);
    pthread_t t = spawn(stray, NULL);
    for (int i = 0; i < 100000; i++)
        free(launder(malloc((size_t)i % 5000)));
    join(t);
    return END;
}
