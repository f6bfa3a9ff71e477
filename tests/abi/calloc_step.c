// A handler that frees and allocates interrupts calloc after every single instruction, in turn.
// What calloc returns is zero, whatever the handler did to the same slab.
// promise: 24
#include "steps.h"
#ifdef __x86_64__

enum { N = 64, STEPS = 600, SIZE = 2000, INNER = 9 };
static unsigned char *volatile block[N];
static void *volatile inner[INNER];

NOINLINE void *take(int zero)
{
    void *p = zero ? calloc(1, SIZE) : malloc(SIZE);
    NO_TAIL_CALL();
    return p;
}

static void interrupt(void)
{
    free((void *)block[2]);
    free((void *)block[3]);
    for (int i = 0; i < INNER; i++)
        inner[i] = take(0);
}

int main(void)
{
    when_stepped(interrupt, SA_NODEFER);
    void *(*volatile bind)(size_t, size_t) = calloc;
    free(calloc(1, launder_size(100000))); /* binds the name */
    (void)bind;
    int bad = 0;
    for (target = 1; target <= STEPS; target++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            for (int i = 0; i < N; i++) {
                block[i] = take(0);
                memset((void *)block[i], 0xAA, SIZE);
            }
            for (int i = 10; i < 20; i++)
                free((void *)block[i]);
            /* Something is claimed, so that calloc's malloc goes the fast way. */
            take(0);
            BEGIN_STEPS();
            unsigned char *p = take(1);
            END_STEPS();
            if (step < target)
                _exit(9); /* shorter than that */
            for (int i = 0; i < SIZE; i++)
                if (p[i])
                    _exit(1);
            for (int i = 0; i < INNER; i++)
                if (inner[i] == p)
                    _exit(8); /* the fast path of malloc itself: not promised */
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 9)
            break;
        if (status && !(WIFEXITED(status) && WEXITSTATUS(status) == 8)) {
            bad++;
            char text[60];
            if (write(2, text, (size_t)snprintf(text, sizeof text, "instruction %d: not zero (%d)\n", target, status)) < 0) {}
        }
    }
    announce_number("steps", (size_t)target);
    CHECK(target > 10);
    CHECK(bad == 0);
    return 0;
}
#else
int main(void)
{
    return 0; /* Steps through the machine code of another processor. */
}
#endif
