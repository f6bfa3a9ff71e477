// Foreign mappings fill the address space but for a hole of 64 MiB. Blocks of 1 MiB come from the
// hole until it is full. They are freed, resized, verified and copied by a fork like others, and
// the hole serves the same requests again. Small blocks come from it, too.
// flags: -pthread
// run: early
// run: late
// promise: 1 26 27
// timeout: 300
#include "address_space.h"
#include "two_sites.h"

enum { MIB = 1 << 20, HOLE = 64 * MIB, MOST = 4096 };

/* Below the windows, whose places are random. */
static char *hole = (char *)((uintptr_t)1 << 36);

static char *block[MOST];

static int is_in_hole(const char *p)
{
    return p >= hole && p < hole + HOLE;
}

static void verify(void)
{
    int (*verify)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "toft_verify");
    CHECK(!verify || verify() == 0);
}

/* As many blocks as there are. Each is zero, or was used before, and none overlaps another. */
static int fill_hole(char *(*from)(size_t), size_t size)
{
    int count = 0;
    errno = 0;
    while (count < MOST && (block[count] = from(size))) {
        CHECK(is_in_hole(block[count]) || size < MIB);
        CHECK(malloc_usable_size(block[count]) >= size);
        fill(block[count], size, (uint64_t)count);
        count++;
    }
    CHECK(count == MOST || errno == ENOMEM);
    for (int i = 0; i < count; i++)
        CHECK(filled(block[i], size, (uint64_t)i));
    verify();
    return count;
}

static void free_all(int count)
{
    while (count)
        free(block[--count]);
    verify();
}

static void resize(int count)
{
    CHECK(count > 8);
    for (int i = 0; i < 4; i++)
        free(block[--count]);
    char *p = realloc(block[0], 2 * MIB);
    if (p) {
        CHECK(is_in_hole(p));
        CHECK(filled(p, MIB, 0));
        block[0] = p;
    }
    p = realloc(block[1], MIB / 2 + 4096);
    CHECK(p && filled(p, MIB / 2 + 4096, 1));
    block[1] = p;
    verify();
    free_all(count);
}

static void in_a_child(int count)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        for (int i = 0; i < count; i++) {
            CHECK(filled(block[i], MIB, (uint64_t)i));
            fill(block[i], MIB, 77);
        }
        free_all(count);
        CHECK(is_in_hole(take(MIB)));
        _exit(0);
    }
    reap(pid);
    for (int i = 0; i < count; i++)
        CHECK(filled(block[i], MIB, (uint64_t)i));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    int late = strcmp(argv[1], "late") == 0;
    /* A block from before is found and freed like those of the hole. */
    char *before = late ? take(3 * MIB) : NULL;
    take_everything();
    make_hole(hole, HOLE);
    /* Each takes a guard page, and in the secure build up to 64 KiB to choose from. */
    int first = fill_hole(take, MIB);
    CHECK(first >= 56);
    in_a_child(first);
    free_all(first);
    int second = fill_hole(take, MIB);
    CHECK(second >= 40); /* glibc divides the room otherwise now */
    resize(second);
    free(before);

    give_everything_back();
    for (int i = 0; i < 100; i++)
        CHECK((block[i] = take(i % 2 ? MIB : 100)));
    free_all(100);

    /* What a call site had stays its own. */
    hole += (size_t)1 << 30;
    take_everything();
    make_hole(hole, HOLE);
    int small = fill_hole(take_another, 100);
    CHECK(small >= 500);
    free_all(small);
    give_everything_back();
    return 0;
}
