// When free returns, nothing of a small block is left; all new memory is zero, canaries included.
// build: full the light one does not clear what is freed
// libc: skip glibc leaves what was there
// promise: 11 3
#include "common.h"

static void check_zero(const unsigned char *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        CHECK(p[i] == 0);
}

int main(void)
{
    static unsigned char *blocks[400];
    for (size_t size = 1; size < 130000; size = size * 3 / 2 + 1) {
        int count = size < 5000 ? 400 : 20;
        for (int round = 0; round < 30; round++) {
            for (int i = 0; i < count; i++) {
                size_t bytes = size - (size_t)(i + round) % (size / 8 + 1);
                blocks[i] = malloc(bytes);
                CHECK(blocks[i] && malloc_usable_size(blocks[i]) == bytes);
                check_zero(blocks[i], bytes);
                memset(blocks[i], 0x77, bytes);
            }
            for (int i = 0; i < count; i++) {
                size_t bytes = malloc_usable_size(blocks[i]);
                free(blocks[i]);
                check_zero(launder(blocks[i]), bytes);
            }
        }
    }
    for (int round = 0; round < 20; round++) {
        unsigned char *p = malloc(300000);
        CHECK(p);
        check_zero(p, 300000);
        memset(p, 0x77, 300000);
        free(p);
    }
    return 0;
}
