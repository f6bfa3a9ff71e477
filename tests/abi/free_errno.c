// free keeps errno, whatever it calls: in every tier, and when munmap has to fail because the
// process has no mapping left to split.
// promise: 21
// timeout: 120
#include "common.h"

int main(void)
{
    static const size_t sizes[] = {1, 100, 1000, 5000, 50000, 150000, 1 << 20, 20 << 20};
    enum { KINDS = sizeof sizes / sizeof *sizes, EACH = 20 };
    static void *block[KINDS][EACH];
    for (int i = 0; i < KINDS; i++)
        for (int k = 0; k < EACH; k++) {
            CHECK((block[i][k] = malloc(sizes[i])));
            memset(block[i][k], 1, sizes[i]);
        }
    for (int i = 0; i < KINDS; i++)
        for (int k = 0; k < EACH / 2; k++) {
            errno = 1000 + k;
            free(block[i][k]);
            CHECK(errno == 1000 + k);
        }
    errno = 55;
    free(NULL);
    CHECK(errno == 55);

    /* Use up all mappings, so that a munmap in the middle of one fails with ENOMEM. */
    size_t page = page_size();
    unsigned char *area = mmap(NULL, 140000 * page, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(area != MAP_FAILED);
    int full = 0;
    for (size_t i = 0; i < 70000 && !full; i++)
        full = mprotect(area + (2 * i + 1) * page, page, PROT_READ) != 0;
    CHECK(full);
    for (int i = 0; i < KINDS; i++)
        for (int k = EACH / 2; k < EACH; k++) {
            errno = 2000 + k;
            free(block[i][k]);
            CHECK(errno == 2000 + k);
        }
    CHECK(munmap(area, 140000 * page) == 0);
    void *p = malloc(30 << 20);
    CHECK(p);
    free(p);
    return 0;
}
