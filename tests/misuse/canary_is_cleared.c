// A new block does not contain the canary that was behind an earlier, smaller block in its slot.
// build: secure the default one writes no canary
// libc: skip glibc writes no canary
// promise: 3 7
#include "one_site.h"

enum { BLOCKS = 400, BEFORE = 1100, AFTER = 1200, ROUNDS = 50 };

/* One call site, because no two share slots. */
int main(void)
{
    static unsigned char *blocks[BLOCKS], canaries[BLOCKS][8];
    unsigned again = 0, clear = 0;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = launder(allocate(BEFORE));
        CHECK(blocks[i]);
        memcpy(canaries[i], blocks[i] + BEFORE, 8);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    for (int round = 0; round < ROUNDS * BLOCKS; round++) {
        unsigned char *p = launder(allocate(AFTER));
        CHECK(p);
        for (int i = 0; i < BLOCKS; i++) {
            if (p != launder(blocks[i]))
                continue;
            again++;
            /* Its first byte is zero for every slot. */
            CHECK(memcmp(p + BEFORE + 1, canaries[i] + 1, 7) != 0);
            clear += p[BEFORE + 3] == 0;
        }
        memset(p, 'x', BEFORE);
        free(p);
    }
    announce_number("again", again);
    CHECK(again > 0 && clear > 0);
    return 0;
}
