#include <stdlib.h>
static void *kept[1000];
int main(void) {
    for (int i = 0; i < 1000; i++) kept[i] = malloc(1000);
    for (int i = 0; i < 1000; i += 2) free(kept[i]);
}
