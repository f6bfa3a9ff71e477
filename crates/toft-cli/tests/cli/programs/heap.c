#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define N 5000
static void *kept[N], *other[N], *big[3], *more[100];
static int mores;
__attribute__((noinline)) void keep(void) { for (int i = 0; i < N; i++) memset(kept[i] = malloc(100), 1, 100); }
static inline __attribute__((always_inline)) void inner(void) {
    for (int i = 0; i < N; i++) memset(other[i] = malloc(3000), 1, 3000);
}
__attribute__((noinline)) void outer(void) { inner(); }
__attribute__((noinline)) void large(void) { for (int i = 0; i < 3; i++) big[i] = malloc(1 << 20); }
__attribute__((noinline)) void grow(void) { more[mores++] = malloc(500000); }
static void *foreign(void *arg) { for (int i = 0; i < N; i += 3) { free(kept[i]); kept[i] = NULL; } return arg; }
static size_t left(void **blocks, int n) {
    size_t bytes = 0;
    for (int i = 0; i < n; i++) if (blocks[i]) bytes += malloc_usable_size(blocks[i]);
    return bytes;
}
int main(void) {
    static char line[100], in[10];
    setvbuf(stdout, line, _IOLBF, sizeof line);
    setvbuf(stdin, in, _IOLBF, sizeof in);
    keep(); outer(); large();
    free(big[1]); big[1] = NULL;
    // The owner does not collect what another thread has freed before it needs it.
    pthread_t thread;
    pthread_create(&thread, NULL, foreign, NULL);
    pthread_join(thread, NULL);
    for (;;) {
        printf("{\"keep\":%zu,\"inner\":%zu,\"large\":%zu,\"grow\":%zu}\n",
            left(kept, N), left(other, N), left(big, 3), left(more, 100));
        int c = getchar();
        if (c == 'g') grow();
        if (c == 'a') abort();
        if (c == EOF) return 0;
    }
}
