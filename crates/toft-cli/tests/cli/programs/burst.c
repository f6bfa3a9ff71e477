#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* Uses 192 MiB, frees them, and idles. */
enum { BLOCKS = 192 << 10, SIZE = 1024 };
static char *blocks[BLOCKS];
int main(void) {
    for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = malloc(SIZE), 1, SIZE);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    write(1, "ready\n", 6);
    getchar();
}
