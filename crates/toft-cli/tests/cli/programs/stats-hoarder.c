#include <stdlib.h>
#include <string.h>
static void *kept[1000];
__attribute__((noinline)) void hoard(void) {
    for (int i = 0; i < 1000; i++) {
        kept[i] = malloc(1000);
        memset(kept[i], 1, 1000);
    }
}
int main(int n, char **v) { hoard(); if (n > 1) abort(); return 3; }
