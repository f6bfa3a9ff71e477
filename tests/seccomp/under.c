/* Runs a program under a filter of system calls that a list describes (README.md):
 *
 *   under LIST -- PROGRAM ARGUMENTS    installs it, as a container runtime does, and executes the program
 *   under LIST                         writes it to standard output, for `bwrap --seccomp`
 *   under kill:NAME -- PROGRAM ...     one that kills the process for one call; or trap:NAME, lie:NAME, allow: */
#include <errno.h>
#include <libgen.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static scmp_filter_ctx filter;

static void fail(const char *what, const char *of)
{
    fprintf(stderr, "under: %s: %s\n", what, of);
    exit(125);
}

static int error_of(const char *name)
{
    if (!strcmp(name, "EPERM"))
        return EPERM;
    if (!strcmp(name, "ENOSYS"))
        return ENOSYS;
    fail("unknown error", name);
    return 0;
}

static void rule(uint32_t action, const char *name, int count, struct scmp_arg_cmp argument)
{
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR)
        return; /* Newer than this library. */
    int code = count ? seccomp_rule_add(filter, action, number, 1, argument)
                     : seccomp_rule_add(filter, action, number, 0);
    if (code && code != -EACCES && code != -EEXIST)
        fail("rule", name);
}

static void begin(uint32_t action)
{
    if (!(filter = seccomp_init(action)))
        fail("cannot begin", "a filter");
    /* As runtimes have it: a call by another architecture's number is refused and not killed for. */
    seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM));
}

static void read_list(const char *path)
{
    const struct scmp_arg_cmp none = {0};
    char line[1024], folder[4096];
    FILE *list = fopen(path, "r");
    if (!list)
        fail("cannot read", path);
    snprintf(folder, sizeof folder, "%s", path);
    char *beside = dirname(folder);
    while (fgets(line, sizeof line, list)) {
        char *rest = line, *word[64];
        int n = 0;
        for (char *w; n < 64 && (w = strtok_r(rest, " \n", &rest));)
            word[n++] = w;
        if (!n || word[0][0] == '#')
            continue;
        if (!strcmp(word[0], "default") && n == 2) {
            begin(SCMP_ACT_ERRNO((unsigned)error_of(word[1])));
        } else if (!strcmp(word[0], "include") && n == 2) {
            char other[8192];
            snprintf(other, sizeof other, "%s/%s", beside, word[1]);
            read_list(other);
        } else if (!strcmp(word[0], "allow")) {
            for (int i = 1; i < n; i++)
                rule(SCMP_ACT_ALLOW, word[i], 0, none);
        } else if (!strcmp(word[0], "refuse") && n > 2) {
            for (int i = 2; i < n; i++)
                rule(SCMP_ACT_ERRNO((unsigned)error_of(word[1])), word[i], 0, none);
        } else if (!strcmp(word[0], "mask") && n == 4) {
            rule(SCMP_ACT_ALLOW, word[1], 1,
                 SCMP_CMP((unsigned)atoi(word[2]), SCMP_CMP_MASKED_EQ, strtoull(word[3], NULL, 0), 0));
        } else if (!strcmp(word[0], "value") && n == 4) {
            rule(SCMP_ACT_ALLOW, word[1], 1,
                 SCMP_CMP((unsigned)atoi(word[2]), SCMP_CMP_EQ, strtoull(word[3], NULL, 0)));
        } else {
            fail("not understood", word[0]);
        }
    }
    fclose(list);
}

int main(int argc, char **argv)
{
    const struct scmp_arg_cmp none = {0};
    if (argc < 2)
        fail("no list", "");
    char *colon = strchr(argv[1], ':');
    if (colon) {
        begin(SCMP_ACT_ALLOW);
        uint32_t action = !strncmp(argv[1], "kill:", 5)   ? SCMP_ACT_KILL_PROCESS
                          : !strncmp(argv[1], "trap:", 5) ? SCMP_ACT_TRAP
                                                          : SCMP_ACT_ERRNO(0);
        if (colon[1])
            rule(action, colon + 1, 0, none);
    } else {
        read_list(argv[1]);
    }
    if (argc == 2)
        return seccomp_export_bpf(filter, 1) ? 125 : 0;
    if (argc < 4 || strcmp(argv[2], "--"))
        fail("--", "expected");
    if (seccomp_load(filter))
        fail("cannot install", argv[1]);
    seccomp_release(filter);
    execvp(argv[3], argv + 3);
    fail("cannot execute", argv[3]);
}
