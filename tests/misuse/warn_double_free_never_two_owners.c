// build: default the secure one ends the process
// Under warn, a block freed twice is handed out once: ignoring is what keeps the program sound.
// flags: -pthread
// env: TOFT_ON_MISUSE=warn
// stderr-any: 60 warnings
// run: 64
// run: 5000
// run: 300000
// libc: skip it has no such option
// promise: 4
#include "common.h"

static void *free_all(void *arg)
{
    void **p = arg;
    for (int i = 0; i < 20; i++)
        free(launder(p[i]));
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t size = strtoul(argv[1], NULL, 10);
    void *p[20], *again[200];
    for (int i = 0; i < 20; i++)
        CHECK((p[i] = malloc(size)));
    free_all(p);
    free_all(p);
    join(spawn(free_all, p));
    join(spawn(free_all, p));
    for (int i = 0; i < 200; i++) {
        CHECK((again[i] = malloc(size)));
        for (int k = 0; k < i; k++)
            CHECK(again[k] != again[i]);
    }
    return 0;
}
