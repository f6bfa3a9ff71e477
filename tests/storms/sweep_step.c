// A thread is stopped after every single instruction of malloc, calloc and free, in turn, while another
// thread gives back all memory that is free. Then it goes on: no block that is live has changed, calloc
// returns zeros, and nothing is handed out twice. A tracer, which is another process, stops the thread.
// flags: -pthread
// timeout: 120
// libc: skip asks for toft_purge
// promise: 6 24
#include "common.h"
#ifdef __x86_64__
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

enum { ROUNDS = 40, LIVE = 24, BLOCKS = 160 };

/* What the tracer, the thread that is stepped and the thread that sweeps tell each other. */
static struct shared {
    volatile int thread; /* the number of the stepped thread */
    volatile int stepping; /* it is within what is to be stepped */
    volatile int asked, done; /* sweeps */
    volatile int over;
    volatile size_t steps;
} *shared;

static unsigned char *block[BLOCKS];
static unsigned tag[BLOCKS];
static const size_t sizes[] = {64, 500, 1024, 2000, 5000, 20000};
static size_t size;

/* With a purge of the thread's own, or with nothing but other threads' frees before. */
static void *sweeper(void *arg)
{
    size_t (*purge)(void) = (size_t(*)(void))symbol("toft_purge");
    (void)arg;
    CHECK(purge);
    while (!shared->over) {
        if (shared->asked == shared->done) {
            sched_yield();
            continue;
        }
        purge();
        shared->done++;
    }
    return NULL;
}

static void verify(void)
{
    for (int i = 0; i < BLOCKS; i++)
        CHECK(!block[i] || filled(block[i], size, tag[i]));
}

static void put(int i, unsigned char *p)
{
    CHECK(p);
    for (int k = 0; k < BLOCKS; k++)
        CHECK(block[k] != p);
    block[i] = p;
    tag[i]++;
    fill(p, size, tag[i]);
}

NOINLINE void *take(int zero)
{
    void *p = zero ? calloc(1, size) : malloc(size);
    NO_TAIL_CALL();
    return p;
}

static void drop(int i)
{
    CHECK(filled(block[i], size, tag[i]));
    free(block[i]);
    block[i] = NULL;
}

/* The calls that are stepped: a malloc or a calloc, from a claim or when none is left, a write, a free. */
static void step_through(int round)
{
    /* Most of it is free and has pages; how long the claim is differs from round to round. */
    for (int i = 0; i < BLOCKS; i++)
        if (!block[i])
            put(i, take(0));
    for (int i = 0; i < BLOCKS; i++)
        if (i % (BLOCKS / LIVE) != round % 3)
            drop(i);
    for (int i = 0, n = round % 5; i < BLOCKS && n; i++)
        if (!block[i])
            put(i, take(0)), n--;
    int first = 0, second;
    while (block[first])
        first++;
    second = first + 1;
    while (block[second])
        second++;
    shared->stepping = 1;
    __asm__ volatile("int3" ::: "memory"); /* From here on the tracer steps. */
    unsigned char *p = take(round % 2);
    p[0] = p[size / 2] = p[size - 1] |= 0;
    unsigned char *q = take(0);
    q[0] = q[size - 1] = 0x55;
    free(q);
    unsigned char *again = take(0);
    again[0] = again[size - 1] = 0x66;
    shared->stepping = 0;
    if (round % 2)
        for (size_t i = 0; i < size; i++)
            CHECK(p[i] == 0);
    CHECK(again[0] == 0x66 && again[size - 1] == 0x66);
    CHECK(again != p);
    put(first, p);
    put(second, again);
    verify();
}

static void *stepped(void *arg)
{
    (void)arg;
    shared->thread = (int)syscall(SYS_gettid);
    while (shared->thread > 0)
        sched_yield(); /* until the tracer has it */
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size = sizes[s];
        memset(block, 0, sizeof block);
        for (int round = 0; round < ROUNDS / (size > 1024 ? 2 : 1); round++)
            step_through(round);
        for (int i = 0; i < BLOCKS; i++)
            if (block[i])
                drop(i);
    }
    return NULL;
}

static void program(void)
{
    pthread_t other = spawn(sweeper, NULL);
    pthread_t one = spawn(stepped, NULL);
    join(one);
    shared->over = 1;
    join(other);
    _exit(0);
}

/* Lets the thread go on until it stops again; false when it is no more. */
static int resume(pid_t thread, int request)
{
    int status;
    return ptrace(request, thread, NULL, NULL) == 0 && waitpid(thread, &status, __WALL) == thread &&
           WIFSTOPPED(status);
}

int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        program();
    while (!shared->thread)
        sched_yield();
    pid_t thread = shared->thread;
    CHECK(ptrace(PTRACE_SEIZE, thread, NULL, NULL) == 0);
    CHECK(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0);
    int status;
    CHECK(waitpid(thread, &status, __WALL) == thread);
    shared->thread = -1;
    int alive = 1;
    while (alive) {
        if (shared->stepping) {
            shared->asked++;
            double limit = now() + 20;
            while (shared->done != shared->asked) {
                CHECK(now() < limit);
                sched_yield();
            }
            shared->steps++;
        }
        alive = resume(thread, shared->stepping ? PTRACE_SINGLESTEP : PTRACE_CONT);
    }
    reap(pid);
    announce_number("steps", shared->steps);
    CHECK(shared->steps > 5000);
    return 0;
}
#else
int main(void)
{
    return 0; /* Steps through the machine code of another processor. */
}
#endif
