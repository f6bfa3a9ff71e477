// The twin of option_limit.c: without TOFT_LIMIT as much as there is.
// libc: skip it is a twin
#include "limit.h"

int main(void)
{
    size_t start = rss_bytes();
    for (size_t size = 1000; size < 3 << 20; size *= 13) {
        struct node *list = NULL;
        for (size_t got = 0; got < 100 << 20; got += size) {
            struct node *n = malloc(size);
            CHECK(n);
            memset(n, 0x5A, size);
            n->next = list;
            n->size = size;
            list = n;
        }
        CHECK(rss_bytes() > start + (100 << 20));
        release(list);
    }
    return 0;
}
