// build: secure walls
// The address of a freed large block comes back late: not among the next 256 blocks of its size,
// and then at a random time. What waits has no mapping, nor pages but for the mebibyte that is
// kept.
// promise: 13 14
// libc: skip it gives the same block
#include "common.h"

enum { SIZE = 1000000, LEAST = 256, N = 4000 };
static unsigned char *block[N];

int main(void)
{
    size_t rss = rss_bytes(), vsz = vsz_bytes(), mappings = mapping_count();
    size_t again = 0, soonest = N, latest = 0;
    for (int i = 0; i < N; i++) {
        CHECK((block[i] = malloc(SIZE)));
        memset(launder(block[i]), 1, SIZE);
        free(block[i]);
        for (int j = i - 1; j >= 0; j--)
            if (block[i] == block[j] || (block[i] - block[j] < SIZE && block[i] > block[j])) {
                size_t after = (size_t)(i - j);
                again++;
                soonest = after < soonest ? after : soonest;
                latest = after > latest ? after : latest;
                break;
            }
    }
    announce_number("soonest", soonest);
    announce_number("latest", latest);
    announce_number("again", again);
    CHECK(soonest > LEAST && latest > 2 * soonest);
    CHECK(rss_bytes() < rss + (3 << 20));
    CHECK(vsz_bytes() < vsz + (16 << 20));
    CHECK(mapping_count() < mappings + 20);
    return 0;
}
