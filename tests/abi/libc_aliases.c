// The __libc_ names are the same allocator: what one name gives, the other frees.
// promise: 22
// musl: skip has no such names
#include "common.h"

int main(void)
{
    void *(*l_malloc)(size_t) = (void *(*)(size_t))symbol("__libc_malloc");
    void (*l_free)(void *) = (void (*)(void *))symbol("__libc_free");
    void *(*l_calloc)(size_t, size_t) = (void *(*)(size_t, size_t))symbol("__libc_calloc");
    void *(*l_realloc)(void *, size_t) = (void *(*)(void *, size_t))symbol("__libc_realloc");
    void *(*l_memalign)(size_t, size_t) = (void *(*)(size_t, size_t))symbol("__libc_memalign");
    void *(*l_valloc)(size_t) = (void *(*)(size_t))symbol("__libc_valloc");
    void *(*l_pvalloc)(size_t) = (void *(*)(size_t))symbol("__libc_pvalloc");
    int (*l_posix)(void **, size_t, size_t) =
        (int (*)(void **, size_t, size_t))symbol("__posix_memalign");
    CHECK(l_malloc && l_free && l_calloc && l_realloc && l_memalign && l_valloc && l_pvalloc);
    static const size_t sizes[] = {0, 1, 100, 5000, 200000, 5000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        void *p[] = {l_malloc(n), l_calloc(n, 1), l_realloc(NULL, n), l_memalign(256, n),
                     l_valloc(n), l_pvalloc(n), NULL};
        if (l_posix)
            CHECK(l_posix(&p[6], 64, n) == 0);
        for (int k = 0; k < 7; k++) {
            if (k < 6)
                CHECK(p[k]);
            if (p[k])
                CHECK(malloc_usable_size(p[k]) >= n);
            if (k % 2)
                l_free(p[k]);
            else
                free(p[k]);
        }
        CHECK((uintptr_t)p[3] % 256 == 0);
        l_free(malloc(n));
        void *q = l_realloc(malloc(n), n + 1000);
        CHECK(q);
        free(q);
    }
    errno = 0;
    CHECK(l_malloc(launder_size(SIZE_MAX)) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(l_calloc(launder_size(SIZE_MAX), 2) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(l_memalign(64, launder_size(SIZE_MAX)) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(l_pvalloc(launder_size(SIZE_MAX)) == NULL && errno == ENOMEM);
    l_free(NULL);
    return 0;
}
