// 20 000 live large blocks, within the mappings a process may have, and all freed again.
// timeout: 120
// promise: 27
#include "common.h"

enum { N = 20000, SIZE = 140000 };
static unsigned char *block[N];

int main(void)
{
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            CHECK((block[i] = malloc(SIZE)));
            block[i][0] = (unsigned char)i;
            block[i][SIZE - 1] = (unsigned char)(i >> 8);
        }
        if (on_toft())
            CHECK(mapping_count() < 10000);
        for (int i = 0; i < N; i++) {
            CHECK(block[i][0] == (unsigned char)i && block[i][SIZE - 1] == (unsigned char)(i >> 8));
            free(block[i]);
        }
    }
    CHECK(rss_bytes() < 100 << 20);
    return 0;
}
