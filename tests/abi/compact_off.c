// Unless the environment asks for it, nothing is ever shared.
// libc: skip it has no compaction
#include "../compact.h"

enum { N = 50000 };
static void *block[N];

int main(void)
{
    struct rng r = {3};
    for (int i = 0; i < N; i++)
        CHECK(block[i] = malloc(200));
    for (int i = 0; i < N; i++)
        if (rng_below(&r, 100) < 85) {
            free(block[i]);
            block[i] = NULL;
        }
    CHECK(compact() == 0);
    struct timespec pause = {0, 700000000};
    nanosleep(&pause, NULL);
    CHECK(compact() == 0 && views() == 0);
    for (int i = 0; i < N; i++)
        free(block[i]);
    return 0;
}
