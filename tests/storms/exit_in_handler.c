// A thread is ended, by pthread_exit in a signal handler, behind one instruction after the other of
// malloc, of free, and of the thread's first malloc: in the middle of a change of its heap, too. Or
// the handler jumps out of there, and the thread goes on. It, the destructors of its keys and the
// threads that come later go on getting blocks, none that is live and none twice; what is verified
// holds.
// flags: -pthread -fno-omit-frame-pointer
// timeout: 120
// promise: 24 25
#include "steps.h"
#include <setjmp.h>
#ifdef __x86_64__

enum { N = 40, SIZE = 24000, EACH = 120, MOST = 2000, ROUNDS = 4, ENOUGH = 8 };
enum call { MALLOC, FREE, FIRST, CALLS };
static void *volatile block[N], *volatile last;
static volatile int late_left, ended, jumps;
static sigjmp_buf back;
static volatile enum call call;
static pthread_key_t key;
static int (*verify)(void);

NOINLINE void *take(void)
{
    void *p = malloc(SIZE);
    NO_TAIL_CALL();
    return p;
}

static void check_new(char *p)
{
    CHECK(p);
    for (int i = 0; i < N; i++)
        CHECK(block[i] != p);
    memset(p, 0x5A, SIZE);
}

/* In the last round the library takes the thread for ended. */
static void late(void *round)
{
    if ((size_t)round < ROUNDS) {
        CHECK(pthread_setspecific(key, (void *)((size_t)round + 1)) == 0);
        return;
    }
    char *p = take();
    check_new(p);
    free(p);
    late_left--;
}

static void end(void)
{
    ended = 1;
    if (jumps)
        siglongjmp(back, 1);
    pthread_exit(NULL);
}

/* Several blocks, all of them new. (Frames are kept, because who unwinds must find its way where the flags are on the stack.) */
static void go_on(void)
{
    static char *got[ENOUGH];
    for (int i = 0; i < ENOUGH; i++) {
        check_new((got[i] = take()));
        for (int k = 0; k < i; k++)
            CHECK(got[k] != got[i]);
    }
    for (int i = 0; i < ENOUGH; i++)
        free(got[i]);
}

static void *victim(void *arg)
{
    CHECK(pthread_setspecific(key, (void *)1) == 0);
    void *mine[4];
    for (int i = 0; i < 4 && call != FIRST; i++)
        check_new((mine[i] = take()));
    step = 0;
    if (sigsetjmp(back, 1) == 0) {
        BEGIN_STEPS();
        if (call == FREE)
            free(mine[0]);
        else
            last = take();
        END_STEPS();
    }
    go_on();
    return arg;
}

static void *successor(void *arg)
{
    CHECK(pthread_setspecific(key, (void *)1) == 0);
    go_on();
    return arg;
}

/* Returns the number of threads that did not finish the call. */
static size_t count_ended(void)
{
    size_t count = 0;
    /* Not every call is so long. */
    for (target = 1; target <= MOST; target += target < EACH ? 1 : 37) {
        ended = 0;
        late_left = 2;
        join(spawn(victim, NULL));
        count += (size_t)ended;
        join(spawn(successor, NULL));
        CHECK(late_left == 0);
        free(take());
    }
    return count;
}

int main(void)
{
    verify = (int (*)(void))symbol("toft_verify");
    CHECK(pthread_key_create(&key, late) == 0);
    for (int i = 0; i < N; i++)
        CHECK((block[i] = take()));
    when_stepped(end, SA_NODEFER);
    for (jumps = 0; jumps < 2; jumps++)
        for (call = MALLOC; call < CALLS; call++) {
            size_t count = count_ended();
            announce_number(jumps ? "jumped out of" : "ended in", count);
            CHECK(count > 20);
            CHECK(!verify || verify() == 0);
        }
    return 0;
}
#else
int main(void)
{
    return 0; /* Steps through the machine code of another processor. */
}
#endif
