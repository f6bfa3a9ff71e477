// The pages of what was freed for good are returned at once: of medium and large blocks, and of
// small ones with the last on a page.
// libc: skip it has no such function
// aarch64: skip the figures include the emulator's memory
#include "common.h"

enum { MANY = 4000 };

static char *block[MANY];

static void drop_all(void (*free_permanently)(void *), size_t size, int many)
{
    for (int i = 0; i < many; i++) {
        CHECK((block[i] = launder(malloc(size))));
        memset(block[i], 1, size);
    }
    size_t before = rss_bytes();
    for (int i = 0; i < many; i++)
        free_permanently(block[i]);
    size_t all = (size_t)many * size, after = rss_bytes();
    /* The secure build keeps the pages of one slot in each slab, and does not fill all of them. */
    CHECK(before - after > all / 10 * 7);
}

int main(void)
{
    void (*free_permanently)(void *) = (void (*)(void *))symbol("toft_free_permanently");
    CHECK(free_permanently);
    drop_all(free_permanently, 900, MANY);
    drop_all(free_permanently, 20000, MANY / 4);
    drop_all(free_permanently, 1000000, 40);
    return 0;
}
