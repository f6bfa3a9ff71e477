// The call site in a report is the return address of the call that allocated the slab's first
// block; it is within the function that called and not within a wrapper of the library.
// run: malloc
// run: calloc
// run: realloc
// run: memalign
// run: aligned_alloc
// run: posix_memalign
// libc: skip it names no call site
// promise: 17
#include "common.h"

static const char *kind;

/* In a separate section, to know where it ends. */
__attribute__((noinline, noclone, section("take_section"))) static void *take(void)
{
    void *p = NULL;
    switch (kind[0] * 256 + kind[1]) {
    case 'm' * 256 + 'a': p = malloc(800); break;
    case 'c' * 256 + 'a': p = calloc(1, 800); break;
    case 'r' * 256 + 'e': p = realloc(NULL, 800); break;
    case 'm' * 256 + 'e': p = memalign(64, 800); break;
    case 'a' * 256 + 'l': p = aligned_alloc(64, 800); break;
    default: CHECK(posix_memalign(&p, 64, 800) == 0);
    }
    NO_TAIL_CALL();
    return p;
}
extern char __start_take_section[], __stop_take_section[];

static void misuse(void)
{
    void *p = launder(take());
    free(p);
    free(launder(p));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    kind = argv[1];
    static char text[4096];
    int status = in_child(misuse, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    char *site = strstr(text, "call site 0x");
    CHECK(site);
    uintptr_t at = strtoul(site + 10, NULL, 16);
    CHECK(at > (uintptr_t)__start_take_section && at <= (uintptr_t)__stop_take_section);
    return 0;
}
