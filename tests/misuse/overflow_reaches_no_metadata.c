// A linear overflow over a whole slab changes only other blocks' content: every later free, malloc
// and check of the allocator goes on as if nothing had been written.
// libc: skip glibc keeps its sizes between blocks
// build: default the secure one names it
// promise: 1
#include "common.h"

enum { N = 20000 };
static unsigned char *block[N];

int main(void)
{
    for (int i = 0; i < N; i++)
        CHECK((block[i] = malloc(200)));
    unsigned char *low = block[0], *high = block[0];
    /* The longest run of blocks without a hole from the first. */
    for (int i = 1; i < N; i++) {
        if (block[i] == high + malloc_usable_size(high))
            high = block[i];
        else if (block[i] < low && block[i] + malloc_usable_size(block[i]) == low)
            low = block[i];
    }
    CHECK(high > low);
    memset(launder(low), 0xFF, (size_t)(high - low) + 200);
    for (int i = 0; i < N; i += 2)
        free(block[i]);
    for (int i = 0; i < N; i += 2)
        CHECK((block[i] = malloc(200)));
    for (int i = 0; i < N; i++)
        free(block[i]);
    return 0;
}
