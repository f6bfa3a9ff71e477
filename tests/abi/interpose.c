// The C library's own allocations come from the library under test, in a parent and in a child:
// malloc_usable_size knows what getline, strdup, asprintf and fopen took, and the break that only
// glibc's malloc moves stays where it was.
// libc: skip glibc's malloc moves the break
// promise: 25
#include "common.h"

static void use_libc(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    CHECK(f);
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, f) > 0)
        CHECK(malloc_usable_size(line) >= size);
    CHECK(malloc_usable_size(f) > 0);
    fclose(f);
    line = realloc(line, 100000);
    CHECK(line);
    free(line);
    char *copy = strdup("a word");
    CHECK(copy && malloc_usable_size(copy) >= 7);
    free(copy);
    CHECK(asprintf(&copy, "%d %s", 12, "words") == 8);
    CHECK(malloc_usable_size(copy) >= 9);
    free(copy);
    char *cwd = getcwd(NULL, 0);
    CHECK(cwd && malloc_usable_size(cwd) > 0);
    free(cwd);
    char *path = realpath("/proc", NULL);
    CHECK(path && malloc_usable_size(path) > 0);
    free(path);
}

int main(void)
{
    void *before = sbrk(0);
    for (int i = 0; i < 2000; i++)
        CHECK(malloc((size_t)i * 30));
    use_libc();
    CHECK(sbrk(0) == before);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        use_libc();
        CHECK(sbrk(0) == before);
        _exit(0);
    }
    reap(pid);
    return 0;
}
