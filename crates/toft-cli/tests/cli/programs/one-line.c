#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *small[4000], *large[4000];
static void both(int i) { small[i] = malloc(250); large[i] = malloc(310); }
int main(void) {
    for (int i = 0; i < 4000; i++) {
        both(i);
        memset(small[i], 1, 250);
        memset(large[i], 1, 310);
    }
    for (int i = 0; i < 4000; i++) {
        if (i % 16) { free(small[i]); free(large[i]); }
    }
    puts("ready");
    fflush(stdout);
    return getchar() == 0;
}
