// Code that looks for the auxiliary vector after the environment finds it, in every scope: after
// main's envp, after `environ`, and after the kernel's own environment, which follows the
// arguments. Go's runtime does that.
// flags: -no-pie
// env: OTHER=kept
// musl: skip starts itself with the library preloaded
#include "common.h"
#include <sys/auxv.h>

extern char **environ, **__environ, **_environ;

static unsigned long after(char **env, unsigned long type)
{
    while (*env)
        env++;
    for (unsigned long *pair = (unsigned long *)(env + 1); pair[0]; pair += 2)
        if (pair[0] == type)
            return pair[1];
    return 0;
}

static void look(char **env)
{
    CHECK(after(env, AT_PAGESZ) == (unsigned long)sysconf(_SC_PAGESIZE));
    CHECK(after(env, AT_RANDOM) && after(env, AT_RANDOM) == getauxval(AT_RANDOM));
    CHECK(after(env, AT_EXECFN) && after(env, AT_EXECFN) == getauxval(AT_EXECFN));
    CHECK(after(env, AT_ENTRY) == getauxval(AT_ENTRY));
}

/* With an even number of variables that are hidden, or an odd one. */
static int in_scope(const char *scope, int more)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setenv("TOFT_SCOPE", scope, 1);
        if (more)
            setenv("TOFT_DECAY", "50", 1);
        execl("/proc/self/exe", "again", "in", scope, (char *)NULL);
        _exit(127);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

int main(int argc, char **argv, char **envp)
{
    look(envp);
    look(environ);
    look(argv + argc + 1);
    /* From the environment back to the arguments, as some libraries go that are not handed any. */
    CHECK(environ[-1] == NULL && strcmp(environ[-1 - argc], argv[0]) == 0);
    CHECK(((long *)environ)[-2 - argc] == argc);
    CHECK(environ == __environ && environ == _environ && environ == envp);
    CHECK(strcmp(getenv("OTHER"), "kept") == 0);
    if (argc == 1)
        return in_scope("program", 0) || in_scope("program", 1) || in_scope("children", 0);
    /* libc's own calls work on whatever array is there. */
    for (int i = 0; i < 100; i++) {
        char name[20];
        snprintf(name, sizeof name, "NAME_%d", i);
        CHECK(setenv(name, "value", 1) == 0);
    }
    CHECK(strcmp(getenv("NAME_0"), "value") == 0 && strcmp(getenv("NAME_99"), "value") == 0);
    CHECK(strcmp(getenv("OTHER"), "kept") == 0 && unsetenv("OTHER") == 0 && !getenv("OTHER"));
    CHECK(setenv("NAME_7", "another", 1) == 0 && strcmp(getenv("NAME_7"), "another") == 0);
    CHECK(putenv("MINE=1") == 0 && strcmp(getenv("MINE"), "1") == 0);
    CHECK(clearenv() == 0 && !getenv("MINE") && setenv("A", "1", 1) == 0);
    look(argv + argc + 1);
    return 0;
}
