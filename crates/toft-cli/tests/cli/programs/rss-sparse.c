#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define N 40000
size_t toft_compact(void) __attribute__((weak));
int toft_stats_json(int) __attribute__((weak));
static char *block[N];
int main(void) {
    unsigned seed = 7;
    for (int i = 0; i < N; i++) memset(block[i] = malloc(250), 1, 250);
    for (int i = 0; i < N; i++) if (rand_r(&seed) % 100 < 90) { free(block[i]); block[i] = NULL; }
    size_t saved = toft_compact();
    for (int i = 0; i < N; i++) if (block[i]) memset(block[i], 2, 250);
    char line[100];
    int length = snprintf(line, sizeof line, "{\"pid\":%d,\"saved\":%zu}\n", getpid(), saved);
    if (write(1, line, length) != length || toft_stats_json(1)) return 1;
    pause();
}
