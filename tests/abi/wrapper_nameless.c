// A function without a symbol, in a stripped library, does the work of several wrappers: their
// callers are the call sites. If its callers are no wrappers, it is a call site itself.
// aux: wrapper_nameless.c
// libs: -ldl
// run: wrap_*
// run: nothing
// libc: skip it has no statistics
// aarch64: skip the wrappers are of x86-64
#include "many_sites.h"

typedef void *wrapper(size_t size);

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    anew_with(argv, "TOFT_WRAPPERS", argv[1]);
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-wrapper_nameless.so", getenv("AUX_DIR"), getenv("TEST_NAME"));
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library);
    wrapper *one = (wrapper *)dlsym(library, "wrap_one"), *two = (wrapper *)dlsym(library, "wrap_two");
    CHECK(one && two);
    long before = statistic("own_sites");
    void *p[4];
    p[0] = one(100);
    p[1] = one(100);
    p[2] = two(50);
    p[3] = two(50);
    long found = statistic("own_sites") - before;
    CHECK(found == (strcmp(argv[1], "nothing") ? 4 : 1));
    for (int i = 0; i < 4; i++)
        free(p[i]);
    return 0;
}
