// A program started under `ulimit -v 4000000` runs as without: blocks of every size, 2 GiB of them.
// flags: -pthread
// ulimit: -v 4000000
// promise: 26 27
#include "common.h"

static void *thread(void *arg)
{
    void *p[1000];
    for (int i = 0; i < 1000; i++)
        CHECK((p[i] = malloc((size_t)i * 40)));
    for (int i = 0; i < 1000; i++)
        free(p[i]);
    return arg;
}

int main(void)
{
    enum { N = 2048 };
    static char *p[N];
    for (int i = 0; i < N; i++) {
        CHECK((p[i] = malloc(1 << 20)));
        p[i][0] = 1;
    }
    for (int i = 0; i < N; i++)
        free(p[i]);
    for (int i = 0; i < 8; i++)
        join(spawn(thread, NULL));
    return 0;
}
