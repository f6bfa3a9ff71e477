// The library's thread ends soon after it has returned what was idle. Nothing is left of it: no
// thread, no mapping, no descriptor, no context switch. Memory that the program frees later is
// returned by a new thread. Another process watches, because one that watches itself runs all the
// time. On a busy machine an end comes late, so the soonest of several counts, by the number of
// checks of the other process: on such a machine it makes fewer in a second. A program with a timer
// counts as idle: the full secure build verifies the heap only before the end.
// flags: -pthread
// timeout: 600
// libc: skip it has no such thread, and keeps memory
// aarch64: skip qemu has no such lists of threads
// promise: 31
// run: once
// run: again
// run: large
// run: threads
// run: timer
// run: users
#include "tasks.h"

/* A program of which the thread never ends soon makes ATTEMPTS bursts more. */
enum { MIB = 1 << 20, COUNT = 20000, LARGE = 40, ATTEMPTS = 8, IDLE = 4, EACH_SECOND = 500, SOON = 5 };

static void (*burst)(void);

static void burst_of_slots(void)
{
    static char *block[COUNT];
    for (int i = 0; i < COUNT; i++) {
        CHECK((block[i] = launder(malloc(2000))));
        memset(block[i], 1, 2000);
    }
    for (int i = 0; i < COUNT; i++)
        free(block[i]);
}

static void burst_of_large(void)
{
    static char *block[LARGE];
    for (int i = 0; i < LARGE; i++) {
        CHECK((block[i] = launder(malloc(MIB))));
        memset(block[i], 1, MIB);
    }
    for (int i = 0; i < LARGE; i++)
        free(block[i]);
}

/* A call that stops the thread while memory waits for its return. The program sleeps afterwards. */
static void burst_and_users(void)
{
    burst_of_slots();
    CHECK(setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1) == 0);
}

static void *sleeper(void *arg)
{
    free(launder(malloc(100)));
    for (;;)
        pause();
    return arg;
}

static void *timer(void *arg)
{
    for (;;)
        usleep(100000);
    return arg;
}

static int threads_of(pid_t pid)
{
    return each_task(pid, NULL, NULL);
}

static long resident(pid_t pid)
{
    char path[100];
    long all, present;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "r");
    CHECK(file && fscanf(file, "%ld %ld", &all, &present) == 2);
    fclose(file);
    return present * sysconf(_SC_PAGESIZE);
}

static int entries(pid_t pid, const char *what)
{
    char path[100];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
    DIR *folder = opendir(path);
    CHECK(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Context switches of all threads, and the number of threads that run or could run. */
struct activity {
    long switches;
    int running;
};

static void add_activity(int number, const char *status, void *argument)
{
    struct activity *all = argument;
    const char *state = line_of(status, "State:");
    const char *voluntary = line_of(status, "voluntary_ctxt_switches:");
    const char *other = line_of(status, "nonvoluntary_ctxt_switches:");
    (void)number;
    CHECK(state && voluntary && other);
    all->switches += atol(voluntary) + atol(other);
    all->running += state[strspn(state, " \t")] != 'S';
}

/* Sees that no thread of the program runs for some seconds, and that none comes. Before, the
 * program's own threads get time to fall asleep. */
static void watch_idle(pid_t pid, int threads)
{
    struct activity first, next;
    do {
        usleep(2000);
        first = (struct activity){0, 0};
        each_task(pid, add_activity, &first);
    } while (first.running);
    for (double end = now() + IDLE; now() < end; usleep(2000)) {
        next = (struct activity){0, 0};
        CHECK(each_task(pid, add_activity, &next) == threads);
        CHECK(next.switches == first.switches && !next.running);
    }
}

/* Waits until the program has as many threads as before the burst, and little memory. Returns the
 * number of checks, of which there are at most EACH_SECOND in a second. */
static int watch(pid_t pid, int threads, int files)
{
    int checks = 0;
    double end = now() + 500;
    while (threads_of(pid) != threads || resident(pid) > 12 * MIB || stacks(pid) != 0) {
        CHECK(now() < end); /* waits for the end of the reclaimer */
        usleep(1000000 / EACH_SECOND);
        checks++;
    }
    CHECK(entries(pid, "fd") == files);
    return checks;
}

/* The other process: asks for bursts by a byte each, and is answered when they are done. */
static void watcher(int to, int from, int bursts, int threads, int sleeps)
{
    pid_t pid = getppid();
    char byte = 0;
    CHECK(write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1);
    int files = entries(pid, "fd");
    CHECK(threads_of(pid) == threads && stacks(pid) == 0);
    int soonest = 500 * EACH_SECOND;
    for (int i = 0; i < bursts || (soonest > SOON * EACH_SECOND && i < bursts + ATTEMPTS); i++) {
        byte = 1;
        CHECK(write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1);
        int checks = watch(pid, threads, files);
        soonest = checks < soonest ? checks : soonest;
    }
    fprintf(stdout, "the thread ended after %d checks\n", soonest);
    fflush(stdout);
    CHECK(soonest <= SOON * EACH_SECOND);
    if (sleeps)
        watch_idle(pid, threads);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const char *how = argv[1];
    burst = !strcmp(how, "large") ? burst_of_large : burst_of_slots;
    burst = !strcmp(how, "users") ? burst_and_users : burst;
    int bursts = !strcmp(how, "once") ? 1 : 3, more = !strcmp(how, "threads") ? 4 : 0;
    int ticks = !strcmp(how, "timer");
    int to[2], from[2];
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    for (int i = 0; i < more; i++)
        spawn(sleeper, NULL);
    if (ticks)
        spawn(timer, NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(to[0]);
        close(from[1]);
        watcher(to[1], from[0], bursts, 1 + more + ticks, !ticks);
        _exit(0);
    }
    char byte;
    close(to[1]);
    while (read(to[0], &byte, 1) == 1) {
        if (byte)
            burst();
        CHECK(write(from[1], &byte, 1) == 1);
    }
    reap(child);
    return 0;
}
