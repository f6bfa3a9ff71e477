// The library takes next to nothing of the static TLS that libraries opened later need: a library
// with 1 KiB of initial-exec TLS can still be opened.
// aux: static_tls.c
// libs: -ldl
// promise: 25
#include "common.h"

int main(void)
{
    free(malloc(10));
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-static_tls.so", getenv("AUX_DIR"), getenv("TEST_NAME"));
    void *lib = dlopen(path, RTLD_NOW);
    if (!lib)
        dprintf(2, "%s\n", dlerror());
    CHECK(lib);
    int (*sum)(void) = (int (*)(void))dlsym(lib, "static_tls_sum");
    CHECK(sum && sum() == 1024);
    return 0;
}
