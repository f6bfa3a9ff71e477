// A library with a wrapper of malloc is unloaded, and another is loaded in its place: what was
// learnt of the first one's frame leads to other words of the stack. These are seen to be no return
// addresses, and are not taken for call sites; the new wrapper is a call site as any other.
// aux: wrapper_first.c
// aux: wrapper_second.c
// libs: -ldl
// env: TOFT_WRAPPERS=wrap
// libc: skip it has no statistics
// promise: 16
// aarch64: skip the wrappers are of x86-64
#include "many_sites.h"
#include "replaced.h"

typedef void *wrapper(size_t size, long word);

static void *library;

HELPER wrapper *opened(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%s.so", getenv("AUX_DIR"), getenv("TEST_NAME"), name);
    library = dlopen(path, RTLD_NOW);
    CHECK(library);
    wrapper *wrap = (wrapper *)dlsym(library, "wrap");
    CHECK(wrap);
    return wrap;
}

int main(void)
{
    wrapper *wrap = opened("wrapper_first");
    void *one = wrap(100, 1), *two = wrap(100, 2);
    /* Each of these two calls is a site. */
    CHECK((uintptr_t)one >> 12 != (uintptr_t)two >> 12);
    CHECK(statistic("wrapper_sites") == 1);
    free(one);
    free(two);
    CHECK(dlclose(library) == 0);
    wrapper *other = opened("wrapper_second");
    CHECK(other == wrap);
    long sites = statistic("own_sites");
    for (long i = 0; i < 3000; i++)
        free(other(100, 0x5555000 + 16 * i));
    CHECK(statistic("own_sites") <= sites + 1);
    return 0;
}
