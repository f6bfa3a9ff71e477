/* What a library is asked that was opened with RTLD_DEEPBIND: aux/deep.c. */
#include "common.h"

HELPER void *opened(const char *name, int mode)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%s.so", getenv("AUX_DIR"), getenv("TEST_NAME"), name);
    return dlopen(path, mode);
}

__attribute__((visibility("default"))) int which(void);
int which(void)
{
    return 1;
}

/* Blocks cross in both directions; `own` is whether the library has its own symbols first. */
HELPER void cross(void *library, bool own)
{
    CHECK(library);
    int (*deep_which)(void) = (int (*)(void))dlsym(library, "deep_which");
    char *(*take_early)(void) = (char *(*)(void))dlsym(library, "deep_take_early");
    int (*swap)(void *, char **, void **) = (int (*)(void *, char **, void **))dlsym(library, "deep_swap");
    CHECK(deep_which && take_early && swap);
    CHECK(deep_which() == (own ? 2 : 1));
    char *early = take_early();
    if (early) {
        CHECK(strcmp(early, "early") == 0);
        free(early);
    }
    char *ours = strdup("theirs");
    void *blocks[8] = {0};
    CHECK(swap(malloc(100), &ours, blocks) == 0);
    CHECK(ours && strcmp(ours, "theirs") == 0);
    free(ours);
    for (int i = 0; i < 8; i++) {
        CHECK(blocks[i] && malloc_usable_size(blocks[i]) >= 30);
        free(blocks[i]);
    }
}
