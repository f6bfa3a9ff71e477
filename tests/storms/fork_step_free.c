// A fork finds another thread after some instruction of a free, of the one of 32 that does most: in
// the secure build that one lets others leave the quarantine. In the child a new thread adopts
// that thread's heap: it gets no block that is live and none twice, and may free them; and what is
// verified holds, before that and after it. Again with slabs that were full, and have too few
// free slots to be drawn from: what is freed there is counted only. Again with blocks of the thread
// that forks: in the child that thread gets no block that is live, and may free those.
// flags: -pthread
// run:
// run: full
// run: others
// timeout: 180
// promise: 23
#include "steps.h"
#ifdef __x86_64__
#include <limits.h>
#include <sched.h>

enum { FULL = 6000, SLABS = 20, LIVE = 64, FILL = 1500, AGAIN = 500, SIZE = 48, PERIOD = 32, EACH_UNTIL = 60, TIMES = 140 };
static unsigned char *live[LIVE];
static void *full[FULL];
static int of_full, is_full;
/* Blocks of the main thread, and how many of them the other thread has freed or is freeing. A free
 * of each PERIOD_OTHERS is stepped through: 64 are published together, and a slab has 256. */
enum { OTHERS = 40000, PERIOD_OTHERS = 256, AGAIN_OTHERS = 600 };
static void *others[OTHERS];
static volatile int of_others;
static int is_others, period = PERIOD;
static volatile int parked, go_on, longest;

NOINLINE void *take(void)
{
    void *p = malloc(SIZE);
    NO_TAIL_CALL();
    return p;
}

/* A block that is freed in between. */
static void *filling(void)
{
    return is_others ? others[of_others++] : take();
}

static void park(void)
{
    parked = 1;
    while (!go_on)
        sched_yield();
    go_on = 0;
}

/* Stepped until the instruction `at`; returns the number of instructions. */
static int stepped_free(int at)
{
    /* A few of each slab: with a quarter of it free it is drawn from again. */
    void *p = is_full ? full[of_full % SLABS * (FULL / SLABS) + of_full / SLABS] : filling();
    of_full++;
    step = 0;
    target = at;
    BEGIN_STEPS();
    free(p);
    END_STEPS();
    return step;
}

static void *worker(void *arg)
{
    static void *filler[FILL];
    (void)arg;
    for (int i = 0; is_full && i < FULL; i++)
        CHECK((full[i] = take()));
    for (int i = 0; i < LIVE; i++)
        CHECK((live[i] = take()));
    for (int i = 0; i < FILL; i++)
        CHECK((filler[i] = take()));
    for (int i = 0; i < FILL; i++)
        free(filler[i]);
    int length[2 * PERIOD_OTHERS], at = 0;
    for (int i = 0; i < 2 * period; i++)
        length[i] = stepped_free(INT_MAX);
    for (int i = 0; i < period; i++)
        if (length[i] > length[at])
            at = i;
    longest = length[at];
    for (int i = 0; i < at; i++)
        free(filling());
    for (int number = 1; number <= TIMES; number++) {
        /* The first ones all, of the others as many as there is time for. */
        int rest = longest > EACH_UNTIL ? longest - EACH_UNTIL : 0;
        int wanted = number <= EACH_UNTIL ? number : EACH_UNTIL + rest * (number - EACH_UNTIL) / (TIMES - EACH_UNTIL);
        stepped_free(wanted);
        /* It was shorter than that. */
        if (step < wanted)
            park();
        for (int i = 1; i < period; i++)
            free(filling());
    }
    return NULL;
}

static int (*verify)(void);

static void *adopter(void *arg)
{
    static void *got[AGAIN];
    (void)arg;
    CHECK(!verify || verify() == 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < AGAIN; i++) {
            CHECK((got[i] = take()));
            for (int k = 0; k < LIVE; k++)
                CHECK(got[i] != live[k]);
            for (int k = 0; k < i; k++)
                CHECK(got[i] != got[k]);
        }
        for (int i = 0; i < AGAIN; i++)
            free(got[i]);
    }
    for (int k = 0; k < LIVE; k++)
        free(live[k]);
    CHECK(!verify || verify() == 0);
    return NULL;
}

/* The main thread in the child: what the other thread has not freed is live. */
static void check_others(void)
{
    static void *got[AGAIN_OTHERS];
    for (int i = 0; i < AGAIN_OTHERS; i++) {
        CHECK((got[i] = take()));
        for (int k = of_others; k < OTHERS; k++)
            CHECK(got[i] != others[k]);
        for (int k = 0; k < i; k++)
            CHECK(got[i] != got[k]);
    }
    for (int k = of_others; k < OTHERS; k++)
        free(others[k]);
    for (int i = 0; i < AGAIN_OTHERS; i++)
        free(got[i]);
    CHECK(!verify || verify() == 0);
}

int main(int argc, char **argv)
{
    is_others = argc > 1 && strcmp(argv[1], "others") == 0;
    is_full = argc > 1 && !is_others;
    for (int i = 0; is_others && i < OTHERS; i++)
        CHECK((others[i] = take()));
    period = is_others ? PERIOD_OTHERS : PERIOD;
    verify = (int (*)(void))symbol("toft_verify");
    when_stepped(park, 0);
    pthread_t t = spawn(worker, NULL);
    int bad = 0;
    for (int number = 1; number <= TIMES; number++) {
        while (!parked)
            sched_yield();
        parked = 0;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            CHECK(!verify || verify() == 0);
            if (is_others)
                check_others();
            join(spawn(adopter, NULL));
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        bad += status != 0;
        go_on = 1;
    }
    join(t);
    announce_number("longest", (size_t)longest);
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
