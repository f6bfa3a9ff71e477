// A handler that allocates at the same call site interrupts, after every single instruction, a
// malloc that claims more slots, of another group or from another slab. It gets no block that is
// live, and neither does the malloc that it has interrupted. (That both get the same one, where the
// handler comes while a slot is being taken, is not promised away; the secure build ends the
// process then.)
// timeout: 120
// stderr-any: that process says what it has found
// promise: 24
#include "steps.h"
#ifdef __x86_64__
#include <sys/mman.h>

enum { N = 1500, SIZE = 48, REFILLS = 16, MOST = 20, LONG = 100, STEPS = 900, INNER = 3, SAME = 50 };
/* Refills that are interrupted after each instruction; others only after those that find no slot. */
enum { WHOLE = 4, BEGINNING = 128 };
static unsigned char *volatile block[N];
static void *volatile inner[INNER];
/* Whether the handler is at it: seen by the parent, too. */
static volatile int *inside;

NOINLINE void *take(void)
{
    void *p = malloc(SIZE);
    NO_TAIL_CALL();
    return p;
}

static void interrupt(void)
{
    *inside = 1;
    for (int i = 0; i < INNER; i++)
        inner[i] = take();
    *inside = 0;
}

static void nothing(void)
{
}

/* How many mallocs come before the next that takes more instructions than most, and how many it takes. In a child, so that
 * all is as it was. */
static int mallocs_before_refill(int *length)
{
    int ends[2], count = 0;
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        when_stepped(nothing, SA_NODEFER);
        target = 1 << 30;
        for (;; count++) {
            step = 0;
            BEGIN_STEPS();
            take();
            END_STEPS();
            if (step > LONG || count == 1000) {
                int found[2] = {count, step};
                _exit(write(ends[1], found, sizeof found) != sizeof found);
            }
        }
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    int found[2];
    CHECK(read(ends[0], found, sizeof found) == sizeof found && found[0] < 1000);
    close(ends[0]);
    close(ends[1]);
    *length = found[1];
    return found[0];
}

static int is_live(void *p)
{
    for (int i = 0; i < N; i++)
        if (block[i] == p)
            return 1;
    return 0;
}

/* The handler comes behind `target` instructions of the malloc after so many: 9 where that has fewer. */
static int interrupted_at(int before)
{
    *inside = 0;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        for (int i = 0; i < before; i++)
            take();
        BEGIN_STEPS();
        void *p = take();
        END_STEPS();
        if (step < target)
            _exit(9);
        for (int i = 0; i < INNER; i++)
            if (inner[i] && is_live(inner[i]))
                _exit(1);
        _exit(is_live(p) ? 2 : 0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    return WTERMSIG(status) == SIGABRT && !*inside ? SAME : 100 + WTERMSIG(status);
}

int main(void)
{
    when_stepped(interrupt, SA_NODEFER);
    inside = mmap(NULL, sizeof *inside, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(inside != MAP_FAILED);
    for (int i = 0; i < N; i++) {
        CHECK(block[i] = take());
        memset((void *)block[i], 0xEE, SIZE);
    }
    /* Groups in which some are live and some are free, in no order. */
    unsigned random = 7;
    for (int i = 0; i < N; i++) {
        random = random * 747796405u + 1;
        if (random >> 31 || random >> 30 == 1) {
            free((void *)block[i]);
            block[i] = NULL;
        }
    }
    int bad = 0, same = 0, refills = 0;
    for (int some = 0; some < MOST && refills < REFILLS; some++) {
        int length, before = mallocs_before_refill(&length);
        /* Those that do no more than to claim are as short. */
        refills += length < STEPS;
        int end = refills > WHOLE && length > BEGINNING ? BEGINNING : length;
        for (target = 1; length < STEPS && target <= end; target++) {
            int how = interrupted_at(before);
            same += how == SAME;
            if (how && how != SAME && how != 9) {
                bad++;
                char text[80];
                int size = snprintf(text, sizeof text, "refill %d, instruction %d of %d: %d\n", some, target, length, how);
                if (write(2, text, (size_t)size) < 0) {}
            }
        }
        /* On to the next. */
        for (int i = 0; i <= before; i++)
            take();
    }
    announce_number("refills", (size_t)refills);
    announce_number("the same block", (size_t)same);
    CHECK(refills > 0);
    CHECK(bad == 0);
    return 0;
}
#else
int main(void)
{
    return 0; /* Steps through the machine code of another processor. */
}
#endif
