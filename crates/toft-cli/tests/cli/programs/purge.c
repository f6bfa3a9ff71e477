#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define N 12288
#ifndef SIZE
#define SIZE 4000
#define USED 4000
#endif
static unsigned char *block[N];
int main(void) {
    char c;
    for (int i = 0; i < N; i++) memset(block[i] = malloc(SIZE), i, USED);
    usleep(200000);
    for (int i = 0; i < N; i++) if (i % 50) { free(block[i]); block[i] = NULL; }
    printf("%d\n", getpid());
    if (fflush(stdout) || read(0, &c, 1) != 1) return 2;
    for (int i = 0; i < N; i++) {
        if (block[i]) { for (int k = 0; k < USED; k++) if (block[i][k] != (unsigned char)i) return 3; }
        else memset(block[i] = malloc(SIZE), i, USED);
    }
    for (int i = 0; i < N; i++) { if (block[i][USED - 1] != (unsigned char)i) return 4; free(block[i]); }
    return 0;
}
