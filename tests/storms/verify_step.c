// A thread is stopped after every single instruction of malloc, realloc and free, in turn, and
// another thread verifies the heap meanwhile. No false alarm, also where a canary is half written.
// flags: -pthread
// timeout: 120
// libc: skip it has no such function
// promise: 12 24
#include "steps.h"
#ifdef __x86_64__
#include <sched.h>

enum call { MALLOC, FREE, GROW, SHRINK, CALLS };
/* Malloc claims new slots now and then, and free fills a quarantine: those take more steps. */
enum { STEPS = 4000, LIVE = 20 };

static int (*verify)(void);
static volatile int asked, answered, over;

static void *other(void *arg)
{
    while (!over) {
        if (answered != asked) {
            CHECK(verify() == 0);
            answered = asked;
        }
        sched_yield();
    }
    return arg;
}

static void look(void)
{
    asked++;
    while (answered != asked)
        sched_yield();
}

NOINLINE char *take(size_t size)
{
    char *p = malloc(size);
    NO_TAIL_CALL();
    return p;
}

/* Returns the number of the last instruction. */
static int steps_of(enum call call, size_t size)
{
    char *live[LIVE];
    for (int i = 0; i < LIVE; i++)
        CHECK((live[i] = take(size)));
    for (target = 1; target <= STEPS; target++) {
        char *p = call == MALLOC ? NULL : take(size - (call == GROW ? 7 : 0));
        step = 0;
        BEGIN_STEPS();
        switch (call) {
        case MALLOC:
            p = take(size);
            break;
        case FREE:
            free(launder(p));
            break;
        case GROW:
            p = realloc(launder(p), size);
            break;
        default:
            p = realloc(launder(p), size - 9);
        }
        END_STEPS();
        CHECK(p);
        if (call != FREE)
            free(launder(p));
        if (step < target)
            break;
    }
    for (int i = 0; i < LIVE; i++)
        free(live[i]);
    return target;
}

int main(void)
{
    verify = (int (*)(void))symbol("toft_verify");
    CHECK(verify);
    when_stepped(look, SA_NODEFER);
    pthread_t thread = spawn(other, NULL);
    static const size_t sizes[] = {40, 1000, 5000};
    for (enum call call = 0; call < CALLS; call++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            CHECK(steps_of(call, sizes[i]) > 20);
    over = 1;
    join(thread);
    return 0;
}
#else
int main(void)
{
    return 0; /* Steps through the machine code of another processor. */
}
#endif
