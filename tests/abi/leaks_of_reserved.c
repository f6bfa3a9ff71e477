// The search for what the program can reach passes over memory that was mapped and never touched.
// To read it would need a page table for each 2 MiB, and seconds. What was touched is searched.
// stderr-any: what dangles is named there
// libc: skip asks for toft_dangling
// aarch64: skip the emulator keeps a record of each page
#include "common.h"

enum { PAGE = 4096 };

/* Of page tables, in KiB. */
static long page_tables(void)
{
    char line[200];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status);
    while (fgets(line, sizeof line, status))
        sscanf(line, "VmPTE: %ld", &kib);
    fclose(status);
    CHECK(kib >= 0);
    return kib;
}

int main(void)
{
    static const size_t RESERVED = (size_t)16 << 30;
    size_t (*dangling)(void) = (size_t(*)(void))symbol("toft_dangling");
    CHECK(dangling);
    char *far = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(far != MAP_FAILED);
    long before = page_tables();
    size_t found = dangling();
    CHECK(page_tables() - before < 1024);
    /* One word in the middle of it leads into a freed block. */
    char *block = malloc(100);
    void *volatile *word = (void *volatile *)(far + RESERVED / 2 + PAGE / 2);
    *word = launder(block);
    free(launder(block));
    block = NULL;
    CHECK(dangling() > found);
    return 0;
}
