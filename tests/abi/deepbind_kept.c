// TOFT_DEEPBIND=0: a library that is opened with RTLD_DEEPBIND has the C library's malloc, and
// nothing is said. Without the flag, and for everything else in the process, malloc is Toft's. The
// secure build says that it does not take the option.
// flags: -rdynamic
// aux: deep.c
// libs: -ldl
// env: TOFT_DEEPBIND=0
// build: default the secure build does not take it
// libc: skip it has no other malloc
#include <stdbool.h>
#include "deepbind.h"

/* Whether a block that the library takes by itself is Toft's. */
static bool of_toft(void *library)
{
    void *(*address_of_malloc)(void) = (void *(*)(void))dlsym(library, "deep_malloc");
    CHECK(address_of_malloc);
    return address_of_malloc() == (void *)malloc;
}

int main(void)
{
    CHECK(on_toft());
    void *shallow = opened("deep", RTLD_NOW);
    CHECK(of_toft(shallow));
    cross(shallow, false);
    CHECK(dlclose(shallow) == 0);
    for (int i = 0; i < 3; i++) {
        void *deep = opened("deep", RTLD_NOW | RTLD_DEEPBIND);
        CHECK(deep && !of_toft(deep));
        /* libc's own strdup took it from Toft: the library could not free it. */
        char *(*take_early)(void) = (char *(*)(void))dlsym(deep, "deep_take_early");
        CHECK(take_early);
        free(take_early());
        CHECK(dlclose(deep) == 0);
    }
    free(malloc(100));
    return 0;
}
