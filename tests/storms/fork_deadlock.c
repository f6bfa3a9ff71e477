// Four threads fork, eight read lines (which allocates under a stdio lock) and one flushes all
// streams (which takes the list of streams and then each lock), for three seconds. fork runs the
// allocator's handlers before it takes the list, so a lock held across them deadlocks here.
// flags: -pthread
// timeout: 40
// promise: 23
#include "common.h"

static volatile int stop;
static volatile unsigned long forks, lines;
static char path[] = "/tmp/toft-lines-XXXXXX";

static void *forker(void *arg)
{
    while (!stop) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            free(malloc(5000));
            _exit(0);
        }
        reap(pid);
        __atomic_fetch_add(&forks, 1, __ATOMIC_RELAXED);
    }
    return arg;
}

static void *reader(void *arg)
{
    while (!stop) {
        FILE *f = fopen(path, "r");
        CHECK(f);
        char *line = NULL;
        size_t size = 0;
        while (getline(&line, &size, f) >= 0)
            __atomic_fetch_add(&lines, 1, __ATOMIC_RELAXED);
        free(line);
        fclose(f);
    }
    return arg;
}

static void *flusher(void *arg)
{
    while (!stop)
        fflush(NULL);
    return arg;
}

int main(void)
{
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    FILE *f = fdopen(fd, "w");
    for (int i = 0; i < 200; i++)
        fprintf(f, "%*d\n", i * 11 % 3000, i);
    fclose(f);
    pthread_t t[13];
    for (int i = 0; i < 13; i++)
        t[i] = spawn(i < 4 ? forker : i < 12 ? reader : flusher, NULL);
    sleep(3);
    stop = 1;
    for (int i = 0; i < 13; i++)
        join(t[i]);
    unlink(path);
    CHECK(forks > 20 && lines > 1000);
    return 0;
}
