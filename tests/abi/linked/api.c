// Toft's own header, as C and as C++, and its two functions, and jemalloc's interface; linked to
// the shared library or to the archive, the program's malloc is Toft's.
#include "toft.h"
#include "common.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#ifdef __cplusplus
extern "C" {
#endif
/* A program brings jemalloc's header. */
void *mallocx(size_t size, int flags);
void *rallocx(void *block, size_t size, int flags);
size_t xallocx(void *block, size_t size, size_t extra, int flags);
size_t sallocx(const void *block, int flags);
void dallocx(void *block, int flags);
void sdallocx(void *block, size_t size, int flags);
size_t nallocx(size_t size, int flags);
int mallctl(const char *name, void *value, size_t *len, void *given, size_t given_len);
int mallctlnametomib(const char *name, size_t *mib, size_t *len);
int mallctlbymib(const size_t *mib, size_t mib_len, void *value, size_t *len, void *given, size_t given_len);
void malloc_stats_print(void (*write)(void *, const char *), void *opaque, const char *options);
#ifdef __cplusplus
}
#endif

static void count(void *letters, const char *text)
{
    *(size_t *)letters += strlen(text);
}

/* The functions are there, and they are Toft's. */
static void jemalloc(void)
{
    enum { ALIGN_4096 = 12, ZERO = 0x40 };
    char *p = (char *)mallocx(100, ALIGN_4096 | ZERO);
    CHECK(p && (uintptr_t)p % 4096 == 0 && p[0] == 0 && p[99] == 0);
    CHECK(sallocx(p, 0) == malloc_usable_size(p) && nallocx(100, 0) >= 100);
    CHECK((p = (char *)rallocx(p, 5000, 0)) && p[99] == 0);
    CHECK(xallocx(p, 5000, 0, 0) >= 5000);
    sdallocx(p, 5000, 0);
    CHECK((p = (char *)malloc(10)));
    dallocx(p, 0);
    const char *version = NULL;
    size_t quantum = 0, len = sizeof version, mib[2], depth = 2, letters = 0;
    CHECK(mallctl("version", (void *)&version, &len, NULL, 0) == 0 && strstr(version, "-toft-"));
    CHECK(mallctlnametomib("arenas.quantum", mib, &depth) == 0 && depth == 2);
    len = sizeof quantum;
    CHECK(mallctlbymib(mib, depth, &quantum, &len, NULL, 0) == 0 && quantum == 16);
    malloc_stats_print(count, &letters, "J");
    CHECK(letters > 0);
}

int main(void)
{
    jemalloc();
    const char *version = toft_version();
    CHECK(version && version[0] >= '0' && version[0] <= '9');
    CHECK(strchr(version, '.'));
    void *before = sbrk(0);
    void *p[2000];
    for (size_t i = 0; i < 2000; i++)
        CHECK((p[i] = malloc(i * 10)));
    CHECK(sbrk(0) == before);
    char *copy = strdup("by the C library");
    CHECK(copy && malloc_usable_size(copy) >= 17);
    free(copy);
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(toft_stats_json(ends[1]) == 0);
    static char text[65536];
    ssize_t n = read(ends[0], text, sizeof text - 1);
    CHECK(n > 0 && text[n - 1] == '\n');
    CHECK(strncmp(text, "{\"toft\":\"", 9) == 0);
    CHECK(strncmp(text + 9, version, strlen(version)) == 0);
    char *live = strstr(text, "\"live_bytes\":");
    CHECK(live && strtoul(live + 13, NULL, 10) >= 2000 * 1999 / 2 * 10);
    CHECK(toft_metrics(ends[1]) == 0);
    n = read(ends[0], text, sizeof text - 1);
    CHECK(n > 0 && text[n - 1] == '\n' && (text[n] = 0, strncmp(text, "# HELP toft_info ", 17) == 0));
    live = strstr(text, "\ntoft_live_bytes{kind=\"slab\"} ");
    CHECK(live && strtoul(strstr(live, "} ") + 2, NULL, 10) >= 2000 * 1999 / 2 * 10);
    for (size_t i = 0; i < 2000; i++)
        free(p[i]);
    /* prctl is Toft's as well: it knows of a filter. */
    CHECK(!strstr(text, "\"filter\":\"installed\"") && !strstr(text, "\"filter\":\"unwatched\""));
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &all};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    CHECK(toft_stats_json(ends[1]) == 0);
    n = read(ends[0], text, sizeof text - 1);
    CHECK(n > 0 && (text[n] = 0, strstr(text, "\"filter\":\"installed\"")));
    CHECK(toft_stats_json(-1) != 0);
    /* To name call sites takes calls that the filter may not know. */
    CHECK(toft_metrics(ends[1]) == -1 && toft_metrics(-1) == -1);
    /* dlopen goes on to the loader's, in a static program as well. */
    void *opened = dlopen("libm.so.6", RTLD_NOW | RTLD_DEEPBIND);
    CHECK(opened && dlsym(opened, "cos") && !dlerror());
    CHECK(dlclose(opened) == 0);
    CHECK(!dlopen("/nowhere/at/all.so", RTLD_NOW) && dlerror());
    return 0;
}
