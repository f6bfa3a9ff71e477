// One thread is stopped after some instruction of malloc, calloc or free. Another one begins to
// give back all memory that is free, and is stopped at a system call of that. The first goes on,
// and writes; then the second goes on. No block that is live has changed, calloc returns zeros,
// nothing is handed out twice, and no call fails for lack of memory. A tracer, which is another
// process, stops both.
// build: default what is in quarantine is not swept
// flags: -pthread
// timeout: 120
// libc: skip asks for toft_purge
// promise: 6 24
#include "common.h"
#ifdef __x86_64__
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SECONDS
#define SECONDS 12
#endif

enum { BLOCKS = 160, CALLS = 4 };
enum { MALLOC, CALLOC, FREE_MALLOC, FREE };

/* What the tracer tells the threads, and they it. */
static struct shared {
    volatile int stepped, sweeper; /* the numbers of the threads */
    volatile int attached, over;
    volatile int calling;     /* within the call */
    volatile size_t size;     /* of the blocks */
    volatile int call, ahead; /* which call, and how many come before it */
} *shared;

static unsigned char *block[BLOCKS];
static unsigned tag[BLOCKS];
static size_t size;
static int blocks;

/* Here the tracer gets a thread, and says when it goes on. */
static inline void stop(void)
{
    __asm__ volatile("int3" ::: "memory");
}

static void *sweeper(void *arg)
{
    size_t (*purge)(void) = (size_t(*)(void))symbol("toft_purge");
    (void)arg;
    CHECK(purge);
    purge();
    shared->sweeper = (int)syscall(SYS_gettid);
    while (!shared->attached)
        sched_yield();
    for (;;) {
        stop();
        if (shared->over)
            return NULL;
        purge();
    }
}

NOINLINE void *take(int zero)
{
    void *p = zero ? calloc(1, size) : malloc(size);
    NO_TAIL_CALL();
    return p;
}

static void put(int i, unsigned char *p)
{
    CHECK(p);
    for (int k = 0; k < blocks; k++)
        CHECK(block[k] != p);
    block[i] = p;
    fill(p, size, ++tag[i]);
}

static void drop(int i)
{
    CHECK(filled(block[i], size, tag[i]));
    free(block[i]);
    block[i] = NULL;
}

static int some(int live)
{
    int i = 0;
    while (i < blocks && (block[i] != NULL) != live)
        i++;
    CHECK(i < blocks);
    return i;
}

static void one_call(void)
{
    for (int i = 0; i < blocks; i++)
        if (!block[i])
            put(i, take(0));
    for (int i = 0; i < blocks; i++)
        if (size < 1024 ? i % 80 : blocks < 100 ? i % 5 : i % 32 < 4)
            drop(i); /* whole pages, and few of each claim */
    for (int n = shared->ahead % (blocks / 8); n; n--)
        put(some(0), take(0));
    int goes = some(1), comes = some(0), call = shared->call;
    unsigned char *p = NULL, *freed = block[goes];
    CHECK(filled(freed, size, tag[goes]));
    stop();
    shared->calling = 1;
    if (call == FREE_MALLOC || call == FREE)
        free(freed);
    if (call != FREE)
        p = take(call == CALLOC);
    shared->calling = 0;
    if (call == CALLOC)
        for (size_t i = 0; i < size; i++)
            CHECK(p[i] == 0);
    if (call != FREE) {
        CHECK(p);
        p[0] = p[size / 2] = p[size - 1] = 0x77;
    }
    stop();
    if (call == FREE_MALLOC || call == FREE)
        block[goes] = NULL;
    if (call != FREE) {
        CHECK(p[0] == 0x77 && p[size / 2] == 0x77 && p[size - 1] == 0x77);
        put(comes, p);
    }
    for (int i = 0; i < blocks; i++)
        CHECK(!block[i] || filled(block[i], size, tag[i]));
}

static void *stepped(void *arg)
{
    (void)arg;
    shared->stepped = (int)syscall(SYS_gettid);
    while (!shared->attached)
        sched_yield();
    for (;;) {
        stop();
        if (shared->over)
            return NULL;
        if (shared->size != size) {
            for (int i = 0; i < blocks; i++)
                if (block[i])
                    drop(i);
            size = shared->size;
            blocks = size > 2500 ? 400000 / (int)size : BLOCKS;
        }
        one_call();
    }
}

/* Lets a thread go on until it stops; the signal by which it did, with 0x80 at a system call. */
static int resume(pid_t thread, int request)
{
    int status;
    CHECK(ptrace(request, thread, NULL, NULL) == 0);
    CHECK(waitpid(thread, &status, __WALL) == thread);
    if (!WIFSTOPPED(status)) {
        char text[80];
        int n = snprintf(text, sizeof text, "the program has ended: %x\n", status);
        CHECK(write(2, text, (size_t)n) == n);
        _exit(1);
    }
    return WSTOPSIG(status);
}

static void attach(pid_t thread)
{
    int status;
    CHECK(ptrace(PTRACE_SEIZE, thread, NULL, (void *)PTRACE_O_TRACESYSGOOD) == 0);
    CHECK(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0);
    CHECK(waitpid(thread, &status, __WALL) == thread);
}

/* A whole purge. Before or after its system call `number` of those that matter, or `steps`
 * instructions after it, the stepped thread goes on to its next stop. Returns true if it did. */
static int purge_around(pid_t sweeper, pid_t stepped, int number, int behind, size_t steps)
{
    int entry = 1, seen = 0, done = 0;
    for (;;) {
        int signal = resume(sweeper, PTRACE_SYSCALL);
        if (signal == SIGTRAP)
            return done;
        CHECK(signal == (SIGTRAP | 0x80));
        struct user_regs_struct regs;
        CHECK(ptrace(PTRACE_GETREGS, sweeper, NULL, &regs) == 0);
        int matters = regs.orig_rax == SYS_madvise || regs.orig_rax == SYS_process_madvise ||
                      regs.orig_rax == SYS_membarrier;
        if (entry && matters)
            seen++;
        if (matters && seen == number && entry != behind && !done) {
            while (behind && steps) {
                /* Up to the next system call, or the end of the purge. */
                struct user_regs_struct now;
                CHECK(ptrace(PTRACE_GETREGS, sweeper, NULL, &now) == 0);
                long code = ptrace(PTRACE_PEEKTEXT, sweeper, (void *)now.rip, NULL);
                if ((code & 0xFFFF) == 0x050F || (code & 0xFF) == 0xCC)
                    break;
                CHECK(resume(sweeper, PTRACE_SINGLESTEP) == SIGTRAP);
                steps--;
            }
            CHECK(resume(stepped, PTRACE_CONT) == SIGTRAP);
            done = 1;
        }
        entry = !entry;
    }
}

static void trace(pid_t stepped, pid_t sweeper)
{
    static const size_t sizes[] = {64, 1024, 2000, 2500, 2000, 20000};
    struct rng r = {12345};
    size_t runs = 0, amid = 0, short_of = 0;
    CHECK(resume(sweeper, PTRACE_CONT) == SIGTRAP);
    CHECK(resume(stepped, PTRACE_CONT) == SIGTRAP);
    double end = now() + SECONDS;
    for (; now() < end || amid <= 500; runs++) {
        if (runs % 50 == 0)
            shared->size = sizes[runs / 50 % (sizeof sizes / sizeof *sizes)];
        shared->call = (int)rng_below(&r, CALLS);
        shared->ahead = (int)rng_below(&r, BLOCKS);
        CHECK(resume(stepped, PTRACE_CONT) == SIGTRAP);
        size_t steps = 1 + rng_below(&r, rng_below(&r, 2) ? 60 : 200);
        while (!shared->calling)
            CHECK(resume(stepped, PTRACE_SINGLESTEP) == SIGTRAP);
        while (steps && shared->calling) {
            CHECK(resume(stepped, PTRACE_SINGLESTEP) == SIGTRAP);
            steps--;
        }
        short_of += steps != 0;
        size_t further = rng_below(&r, 4) ? 0 : rng_below(&r, 900);
        int number = 1 + (int)rng_below(&r, 4), behind = further || rng_below(&r, 2);
        int gone_on = purge_around(sweeper, stepped, number, behind, further);
        amid += gone_on;
        if (!gone_on)
            CHECK(resume(stepped, PTRACE_CONT) == SIGTRAP);
        CHECK(resume(stepped, PTRACE_CONT) == SIGTRAP);
    }
    shared->over = 1;
    announce_number("runs", runs);
    announce_number("amid", amid);
    announce_number("short", short_of);
    CHECK(amid > 500);
    CHECK(ptrace(PTRACE_DETACH, stepped, NULL, NULL) == 0);
    CHECK(ptrace(PTRACE_DETACH, sweeper, NULL, NULL) == 0);
}

int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        pthread_t other = spawn(sweeper, NULL);
        pthread_t one = spawn(stepped, NULL);
        join(one);
        join(other);
        _exit(0);
    }
    while (!shared->stepped || !shared->sweeper)
        sched_yield();
    attach(shared->stepped);
    attach(shared->sweeper);
    shared->attached = 1;
    trace(shared->stepped, shared->sweeper);
    reap(pid);
    return 0;
}
#else
int main(void)
{
    return 0; /* Steps through the machine code of another processor. */
}
#endif
