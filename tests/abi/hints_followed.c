// Sites that a file of hints names have a separate partition, or share one only with the others of
// their group, wherever the program is loaded. So has the site of a library that is loaded later.
// All others share one.
// flags: -Wl,--build-id=0x0badc0de01234567
// aux: hinted.c
// libs: -ldl
// build: default the secure build keeps all sites apart
// libc: skip it has no partitions
// env: TOFT_ON_MISUSE=warn
// promise: 15
#include "hints.h"

enum { OWN = 10, OTHERS = 40, LAST = 60 };

static uintptr_t (*plugin_site(void))(size_t)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-hinted.so", getenv("AUX_DIR"), getenv("TEST_NAME"));
    void *plugin = dlopen(path, RTLD_NOW);
    CHECK(plugin);
    return (uintptr_t (*)(size_t))dlsym(plugin, "hinted_site");
}

static int child(void)
{
    CHECK(statistic("own_sites") == 0);
    long partition[LAST];
    for (int i = 0; i < LAST; i++)
        partition[i] = partition_of_site(i);
    CHECK(statistic("own_sites") == OWN);
    for (int i = 0; i < LAST; i++)
        for (int j = 0; j < i; j++) {
            int groups[2];
            for (int k = 0; k < 2; k++) {
                int n = k ? i : j;
                /* 0 to 9 each its own, then groups of ten, and from 40 on the others. */
                groups[k] = n < OWN ? n : n < OTHERS ? 100 + n / 10 : 200;
            }
            CHECK((partition[i] == partition[j]) == (groups[0] == groups[1]));
        }
    /* A site for which no line stands, of another file, is with the others. */
    CHECK(partition_of(malloc(64)) == partition[OTHERS]);
    CHECK(partition_of((void *)plugin_site()(64)) == partition[OWN]);
    CHECK(statistic("merged_sites") == 0 && statistic("own_sites") == OWN);
    return 0;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc == 2)
        return child();
    uintptr_t (*site)(size_t) = plugin_site();
    Dl_info info;
    CHECK(dladdr((void *)(uintptr_t)site, &info) != 0);
    begin_hints();
    hint("toft-hints 1\n# of a test\nothers together\n\nmodule %s /somewhere/else\n", BUILD_ID);
    for (int i = OTHERS; i-- > 0;) {
        /* In whatever order. */
        int n = i % 2 ? i : OTHERS - 2 - i;
        if (n < OWN)
            hint("own 0x%zx  # alone\n", site_offset(n));
        else
            hint("group %d 0x%zX\n", n / 10, site_offset(n));
    }
    hint("module - %s-hinted.so\n", getenv("TEST_NAME"));
    hint("group 1 0x%zx", (size_t)((char *)(uintptr_t)site + 9 - (char *)info.dli_fbase));
    static char text[1 << 12];
    int status = run_hinted("child", text, sizeof text);
    fprintf(stderr, "%s", text);
    return status != 0;
}
