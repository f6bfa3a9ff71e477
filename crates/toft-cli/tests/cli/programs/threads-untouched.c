#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *block[4000];
int main(void) {
    for (int i = 0; i < 4000; i++) block[i] = malloc(60000);
    for (int i = 0; i < 4000; i++) if (i % 10) free(block[i]);
    puts("ready");
    fflush(stdout);
    char c;
    return read(0, &c, 1) != 1;
}
