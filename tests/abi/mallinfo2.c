// mallinfo2 and mallinfo tell what is really allocated: in-use bytes follow what the program takes
// and gives back, small and large, also for frees by another thread and after its exit.
// promise: 22
// flags: -pthread
#include "common.h"

enum { N = 4000, LARGE = 10, LARGE_SIZE = 1 << 20 };
static void *small[N], *large[LARGE];

static size_t in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    /* Large blocks, which have separate mappings, are counted apart. */
    size_t total = m.uordblks + m.hblkhd;
    CHECK(m.arena + m.hblkhd >= total);
    return total;
}

static void *free_all(void *arg)
{
    (void)arg;
    for (int i = 0; i < N; i++)
        free(small[i]);
    for (int i = 0; i < LARGE; i++)
        free(large[i]);
    return NULL;
}

static void take(void)
{
    for (int i = 0; i < N; i++)
        CHECK((small[i] = malloc(1000)));
    for (int i = 0; i < LARGE; i++)
        CHECK((large[i] = malloc(LARGE_SIZE)));
}

int main(void)
{
    free(malloc(10));
    join(spawn(free_all, NULL)); /* what a thread costs is in the first figure */
    size_t asked = (size_t)N * 1000 + (size_t)LARGE * LARGE_SIZE;
    size_t before = in_use();
    for (int round = 0; round < 3; round++) {
        take();
        size_t with = in_use();
        CHECK(with >= before + asked);
        CHECK(with <= before + asked + asked / 10 + 100000);
        struct mallinfo old = mallinfo();
        CHECK((size_t)old.uordblks + (size_t)old.hblkhd == with);
        if (round % 2)
            free_all(NULL);
        else
            join(spawn(free_all, NULL));
        size_t after = in_use();
        CHECK(after <= before + 20000 && before <= after + 20000);
    }
    return 0;
}
