#include <stdlib.h>
int main(void) {
    void *kept[100];
    for (int i = 0; i < 100; i++) kept[i] = i % 2 ? malloc(1000 + i) : calloc(1, 2000);
    for (int i = 0; i < 50; i++) kept[i] = realloc(kept[i], 5000);
    for (int i = 0; i < 90; i++) free(kept[i]);
    free(0);
    void *aligned;
    return posix_memalign(&aligned, 4096, 3) || malloc(-1ul >> 1);
}
