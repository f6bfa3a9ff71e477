// TOFT_SCOPE=program: the program is on the library and its children are not, whichever way they
// are started; the rest of the environment, other preloads among it, is left alone.
// env: TOFT_SCOPE=program
// env: TOFT_DECAY=50
// env: OTHER=kept
// libc: skip it has no such option
// musl: skip starts itself with the library preloaded
#include "common.h"
#include <spawn.h>

extern char **environ;

static void nothing_of_toft(char **env)
{
    for (; *env; env++) {
        CHECK(strncmp(*env, "TOFT_", 5) != 0);
        CHECK(strncmp(*env, "LD_PRELOAD=", 11) != 0 || !strstr(*env, "libtoft"));
    }
}

static int wait_for(pid_t pid)
{
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

static int started_with(char **env)
{
    char *words[] = {"again", "child", NULL};
    pid_t pid = fork();
    if (pid == 0) {
        execve("/proc/self/exe", words, env);
        _exit(127);
    }
    return wait_for(pid);
}

int main(int argc, char **argv, char **envp)
{
    if (argc > 1) {
        CHECK(!on_toft());
        nothing_of_toft(environ);
        nothing_of_toft(envp);
        CHECK(getenv("OTHER") && strcmp(getenv("OTHER"), "kept") == 0);
        return 0;
    }
    CHECK(on_toft());
    nothing_of_toft(environ);
    nothing_of_toft(envp);
    nothing_of_toft(argv + argc + 1);
    for (char **e = environ; *e; e++)
        CHECK(**e);
    CHECK(getenv("OTHER") && strcmp(getenv("OTHER"), "kept") == 0);
    CHECK(started_with(environ) == 0);
    CHECK(started_with(envp) == 0);
    CHECK(started_with(argv + argc + 1) == 0);
    char *words[] = {"again", "child", NULL};
    pid_t pid;
    char self[PATH_MAX] = {0};
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    CHECK(posix_spawn(&pid, self, NULL, NULL, words, environ) == 0);
    CHECK(wait_for(pid) == 0);
    CHECK(posix_spawn(&pid, self, NULL, NULL, words, envp) == 0);
    CHECK(wait_for(pid) == 0);
    char command[PATH_MAX + 20];
    snprintf(command, sizeof command, "'%s' child", self);
    CHECK(system(command) == 0);
    FILE *pipe = popen(command, "r");
    CHECK(pipe && pclose(pipe) == 0);
    CHECK(setenv("ANOTHER", "1", 1) == 0 && system(command) == 0);
    return 0;
}
