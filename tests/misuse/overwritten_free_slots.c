// An attacker who writes an address over every byte of every free block gains nothing: what malloc
// gives afterwards is heap, never the address written, and no two blocks overlap.
// libc: skip glibc keeps its lists in free blocks
// build: default,light the full secure one names it
// promise: 1
#include "common.h"

enum { N = 30000 };
static unsigned char *block[N], *again[N];
static size_t size_of[N];

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

int main(void)
{
    unsigned char *target = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(target != MAP_FAILED);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            size_of[i] = 16 + (size_t)(i * 7) % 1000;
            CHECK((block[i] = malloc(size_of[i])));
        }
        for (int i = 0; i < N; i++)
            free(block[i]);
        for (int i = 0; i < N; i++) {
            uintptr_t *word = launder(block[i]);
            for (size_t k = 0; k < size_of[i] / 8; k++)
                word[k] = (uintptr_t)(round == 0 ? target + 64 : round == 1 ? (void *)&word[k] : 0);
        }
        for (int i = 0; i < N; i++) {
            CHECK((again[i] = malloc(size_of[i])));
            CHECK(again[i] + size_of[i] <= target || again[i] >= target + (1 << 20));
            memset(again[i], 0xEE, size_of[i]);
        }
        for (size_t i = 0; i < 1 << 20; i++)
            CHECK(target[i] == 0);
        qsort(again, N, sizeof again[0], by_address);
        for (int i = 1; i < N; i++)
            CHECK(again[i - 1] + malloc_usable_size(again[i - 1]) <= again[i]);
        for (int i = 0; i < N; i++)
            free(again[i]);
    }
    return 0;
}
