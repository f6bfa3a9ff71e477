// The program ends while another thread is in the middle of writing a profile: the one of the exit
// is written all the same.
// flags: -pthread
// libc: skip it writes no profiles
// promise: 24
#include "common.h"
#include <sys/stat.h>

static void *writes(void *unused)
{
    /* Into a pipe that is not read yet: it stays in the middle. */
    raise(SIGUSR2);
    return unused;
}

static void ends(void)
{
    static char text[4096];
    const char *pipe = getenv("TEST_PIPE");
    spawn(writes, NULL);
    usleep(200000);
    pid_t reader = fork();
    CHECK(reader >= 0);
    if (reader == 0) {
        alarm(120); /* nobody may be left to write */
        usleep(700000);
        int file = open(pipe, O_RDONLY);
        while (file >= 0 && read(file, text, sizeof text) > 0) {
        }
        _exit(0);
    }
    exit(0);
}

int main(int argc, char **argv)
{
    (void)argv;
    static char text[1 << 16], name[64], numbered[80];
    if (argc == 2) {
        CHECK(launder(malloc(1000)));
        ends();
    }
    snprintf(name, sizeof name, "/tmp/toft-exit-waits.%d", getpid());
    snprintf(numbered, sizeof numbered, "%s.1", name);
    setenv("TOFT_PROFILE", name, 1);
    setenv("TOFT_PROFILE_AT", "signal:12", 1);
    setenv("TEST_PIPE", numbered, 1);
    CHECK(mkfifo(numbered, 0600) == 0);
    int status = run_again("child", 2, text, sizeof text);
    CHECK(unlink(numbered) == 0);
    CHECK(status == 0);
    CHECK(slurp(name, text, sizeof text) > 0 && strstr(text, "\"source\":\"exit\""));
    CHECK(unlink(name) == 0);
    return 0;
}
