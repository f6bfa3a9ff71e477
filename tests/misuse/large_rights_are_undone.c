// build: secure walls
// The program changes the rights of a large block, and frees it as it is. That does no harm to the
// free, nor to the next large block: it is readable, writable, not executable, and zero.
// promise: 12 14
// libc: skip what it keeps in its heap goes on having the rights
#include "faults.h"
#include <sys/mman.h>

enum { SIZE = 1 << 20, PAGE = 4096 };

static void rights_of(const void *p, char rights[8])
{
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    char line[512];
    int found = 0;
    while (!found && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        CHECK(sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3);
        found = (uintptr_t)p >= begin && (uintptr_t)p < end;
    }
    CHECK(found);
    fclose(maps);
}

int main(void)
{
    catch_faults();
    char *live = malloc(8 << 20);
    CHECK(live);
    memset(launder(live), 1, 8 << 20);
    static const int all[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE, PROT_READ | PROT_WRITE | PROT_EXEC};
    for (size_t i = 0; i < 4 * sizeof all / sizeof *all; i++) {
        void *block;
        CHECK(posix_memalign(&block, PAGE, SIZE) == 0);
        memset(launder(block), 0xEE, SIZE);
        // All of it, or a page in its middle, as those do who want a guard there.
        char *from = (char *)block + (i % 2 ? SIZE / 2 : 0);
        CHECK(mprotect(from, i % 2 ? PAGE : SIZE, all[i / 4]) == 0);
        CHECK(!sigsetjmp(fault_jump, 0));
        free(launder(block));
        CHECK(faults(block) && faults(from));
        for (int j = 0; j < 3; j++) {
            unsigned char *p = launder(malloc(SIZE));
            CHECK(p && !sigsetjmp(fault_jump, 0));
            for (size_t at = 0; at < SIZE; at++)
                CHECK(p[at] == 0);
            memset(p, 7, SIZE);
            char rights[8];
            rights_of(p + SIZE / 2, rights);
            CHECK(strcmp(rights, "rw-p") == 0);
            if (j == 2)
                free(p);
        }
    }
    return 0;
}
