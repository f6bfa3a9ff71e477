// valloc aligns to a page; pvalloc does and rounds the size up to whole pages, also from 0.
// promise: 20 22
#include "common.h"

int main(void)
{
    size_t page = page_size();
    for (size_t size = 0; size < 300000; size = size * 3 + 1) {
        void *v = valloc(size), *pv = pvalloc(size);
        CHECK(v && (uintptr_t)v % page == 0);
        CHECK(pv && (uintptr_t)pv % page == 0);
        CHECK(malloc_usable_size(v) >= size);
        CHECK(malloc_usable_size(pv) >= (size + page - 1) / page * page);
        memset(v, 1, size);
        memset(pv, 1, (size + page - 1) / page * page);
        free(v);
        free(pv);
    }
    for (size_t less = 0; less < 3 * page; less += 511) {
        errno = 0;
        CHECK(valloc(SIZE_MAX - launder_size(less)) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(pvalloc(SIZE_MAX - launder_size(less)) == NULL && errno == ENOMEM);
    }
    return 0;
}
