// A fork finds another thread after every single instruction of malloc, one after the other. In the
// child a new thread adopts that thread's heap: it gets no block that is live and none twice, and
// may free them; and what is verified holds, before that and after it.
// flags: -pthread
// timeout: 60
// promise: 23 25
#include "steps.h"
#ifdef __x86_64__
#include <sched.h>

enum { N = 64, AGAIN = 100, SIZE = 48, STEPS = 70 };
static unsigned char *volatile block[N + STEPS + 2];
static volatile int parked, released;

NOINLINE void *take(void)
{
    void *p = malloc(SIZE);
    NO_TAIL_CALL();
    return p;
}

static void park(void)
{
    parked = 1;
    while (!released)
        ;
}

static void *worker(void *arg)
{
    (void)arg;
    for (int i = 0; i < N; i++)
        block[i] = take();
    /* At uneven distances, so that an address that is off by one is that of a live block. */
    static const int hole[] = {1, 5, 6, 11, 20, 22, 40, 41, 44, 60};
    for (size_t i = 0; i < sizeof hole / sizeof *hole; i++) {
        free((void *)block[hole[i]]);
        block[hole[i]] = NULL;
    }
    block[N] = take();
    for (target = 1; target <= STEPS; target++) {
        step = 0;
        parked = released = 0;
        BEGIN_STEPS();
        void *p = take();
        END_STEPS();
        /* Shorter than that many instructions. */
        if (!parked) {
            parked = 1;
            while (!released)
                ;
        }
        while (released != 2)
            ;
        free(p);
        /* The claim stays as uneven as it was: */
    }
    return NULL;
}

static int (*verify)(void);

static void *adopter(void *arg)
{
    (void)arg;
    static void *got[AGAIN];
    CHECK(!verify || verify() == 0);
    for (int i = 0; i < AGAIN; i++) {
        CHECK((got[i] = take()));
        for (int k = 0; k <= N; k++)
            CHECK(got[i] != block[k]);
        for (int k = 0; k < i; k++)
            CHECK(got[i] != got[k]);
    }
    for (int i = 0; i < AGAIN; i++)
        free(got[i]);
    CHECK(!verify || verify() == 0);
    return NULL;
}

int main(void)
{
    verify = (int (*)(void))symbol("toft_verify");
    when_stepped(park, 0);
    pthread_t t = spawn(worker, NULL);
    int bad = 0;
    for (int i = 1; i <= STEPS; i++) {
        while (!parked || target != i)
            sched_yield();
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            CHECK(!verify || verify() == 0);
            join(spawn(adopter, NULL));
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (status) {
            bad++;
            char text[60];
            if (write(2, text, (size_t)snprintf(text, sizeof text, "instruction %d: bad\n", i)) < 0) {}
        }
        parked = 0;
        released = 1;
        released = 2;
    }
    join(t);
    announce_number("bad", (size_t)bad);
    CHECK(bad == 0);
    return 0;
}
#else
int main(void)
{
    return 0; /* Steps through the machine code of another processor. */
}
#endif
