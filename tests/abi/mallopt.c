// mallopt answers 1 to every setting that programs make, and malloc goes on as before.
// promise: 22
// musl: skip its headers have no mallopt
#include "common.h"

int main(void)
{
    static const int known[][2] = {
        {M_CHECK_ACTION, 3},      {M_MMAP_THRESHOLD, 128 * 1024}, {M_MMAP_MAX, 65536},
        {M_TOP_PAD, 0},           {M_TRIM_THRESHOLD, 1 << 20},    {M_ARENA_MAX, 2},
        {M_ARENA_TEST, 2},        {M_MXFAST, 0},                  {M_PERTURB, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK(mallopt(known[i][0], known[i][1]) == 1);
    if (on_toft())
        CHECK(mallopt(-1000, 0) == 1);
    void *p = malloc(100);
    CHECK(p);
    free(p);
    return 0;
}
