#include <stdlib.h>
#define N 20000
size_t toft_compact(void) __attribute__((weak));
static void *kept[N];
int main(void) {
    for (int i = 0; i < N; i++) kept[i] = malloc(250);
    for (int i = 0; i < N; i++) if (i % 21) free(kept[i]);
    if (toft_compact) toft_compact();
}
