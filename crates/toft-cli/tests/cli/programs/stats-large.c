#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *kept[24], text[4096];
int main(void) {
    for (int i = 0; i < 24; i++) memset(kept[i] = malloc(1 << 20), 1, 1 << 20);
    free(kept[3]);
    free(kept[7]);
    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    int length = read(file, text, sizeof text);
    return write(1, text, length) != length;
}
