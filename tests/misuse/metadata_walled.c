// In front of each mapping of the allocator's own data and behind it there is a page that is not
// mapped, whatever the program has allocated.
// promise: 1 2
// libc: skip glibc keeps its metadata between blocks
#include "faults.h"

enum { N = 20000, MAPS = 20000 };
static unsigned char *block[N];
static char text[4 << 20];
static struct {
    uintptr_t from, to;
} map[MAPS];

static void *thread(void *arg)
{
    for (int i = 0; i < 1000; i++)
        free(malloc((size_t)i * 100));
    return arg;
}

int main(void)
{
    struct rng r = {11};
    for (int i = 0; i < N; i++) {
        CHECK((block[i] = malloc(rng_below(&r, i % 10 ? 2000 : i % 100 ? 100000 : 500000))));
    }
    for (int i = 0; i < 4; i++)
        join(spawn(thread, NULL));
    slurp("/proc/self/maps", text, sizeof text);
    int n = 0;
    uintptr_t file_end = 0;
    char *save;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *after;
        uintptr_t from = strtoul(line, &after, 16), to = strtoul(after + 1, &after, 16);
        /* Behind the data of a program or a library lies the rest of it, of no file. */
        int of_file = strchr(line, '/') || from == file_end;
        if (of_file)
            file_end = to;
        if (after[2] != 'w' || of_file || strchr(line, '['))
            continue;
        int holds_block = 0;
        for (int i = 0; i < N && !holds_block; i++)
            holds_block = (uintptr_t)block[i] >= from && (uintptr_t)block[i] < to;
        if (!holds_block) {
            map[n].from = from;
            map[n].to = to;
            n++;
        }
    }
    catch_faults();
    int walled = 0;
    for (int i = 0; i < n; i++) {
        const unsigned char *from = (const unsigned char *)map[i].from;
        const unsigned char *to = (const unsigned char *)map[i].to;
        /* The allocator's own lie below the libraries. */
        if (map[i].from >= 0x7e0000000000)
            continue;
        CHECK(faults(from - 1));
        CHECK(faults(to));
        walled++;
    }
    announce_number("mappings", (size_t)walled);
    CHECK(walled >= 3);
    return 0;
}
