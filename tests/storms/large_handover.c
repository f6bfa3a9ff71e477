// Four threads replace one another's large blocks, by malloc, calloc and realloc. What waits free
// is taken and put back by all of them, and its pages move. Contents stay, and zeroed memory is
// zero.
// flags: -pthread
// timeout: 120
// promise: 21
#include "common.h"

enum { SHELF = 64, OPS = 6000, STRIDE = 4096, LEAST = 140000 };
static unsigned char *shelf[SHELF];

static void write_all(unsigned char *p, size_t size, unsigned char value)
{
    for (size_t at = 0; at < size; at += STRIDE)
        p[at] = value;
    p[size - 1] = value;
}

static void *worker(void *arg)
{
    struct rng r = {(size_t)arg + 1};
    for (int k = 0; k < OPS; k++) {
        size_t size = LEAST + rng_below(&r, 900000);
        unsigned char *p;
        if (k % 4 == 0) {
            CHECK((p = calloc(1, size)));
            for (size_t at = 0; at < size; at += STRIDE)
                CHECK(p[at] == 0);
            CHECK(p[size - 1] == 0);
        } else {
            CHECK((p = k % 2 ? malloc(size) : memalign(4096, size)));
        }
        unsigned char value = (unsigned char)(k | 1);
        write_all(p, size, value);
        if (k % 5 == 0) {
            size_t next = LEAST + rng_below(&r, 3000000), least = next < size ? next : size;
            CHECK((p = realloc(p, next)));
            for (size_t at = 0; at < least; at += STRIDE)
                CHECK(p[at] == value);
        }
        free(__atomic_exchange_n(&shelf[rng_below(&r, SHELF)], p, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

int main(void)
{
    pthread_t t[4];
    for (size_t i = 0; i < 4; i++)
        t[i] = spawn(worker, (void *)i);
    for (int i = 0; i < 4; i++)
        join(t[i]);
    for (int i = 0; i < SHELF; i++)
        free(shelf[i]);
    return 0;
}
