// A library opened at run time allocates from its constructor to its destructor with the same
// allocator as its host, again and again, without memory growing.
// aux: plugin.c
// libs: -ldl
// promise: 24
#include "common.h"

int main(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-plugin.so", getenv("AUX_DIR"), getenv("TEST_NAME"));
    size_t rss = 0;
    for (int i = 0; i < 300; i++) {
        void *lib = dlopen(path, RTLD_NOW);
        CHECK(lib);
        void *(*swap)(void *) = (void *(*)(void *))dlsym(lib, "plugin_swap");
        CHECK(swap);
        void *p = malloc(5000);
        for (int k = 0; k < 100; k++) {
            p = swap(p);
            CHECK(p && malloc_usable_size(p) >= 300);
        }
        free(p);
        CHECK(dlclose(lib) == 0);
        if (i == 50)
            rss = rss_bytes();
    }
    CHECK(rss_bytes() < rss + (2 << 20));
    return 0;
}
