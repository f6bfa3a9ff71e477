// A signal that writes a profile comes while the thread is on an alternate stack of 8 KiB with a
// page that faults below it, as every thread of Rust's library has. The profile is written, the
// stack suffices, and the program goes on.
// flags: -pthread
// libc: skip it writes no profiles
// promise: 24
#include "common.h"

enum { STACK = 8192 };
static char *bottom;
static volatile int came;

static void on_usr1(int number)
{
    (void)number;
    came++;
}

static size_t untouched(void)
{
    size_t n = 0;
    while (n < STACK && bottom[n] == 0x5a)
        n++;
    return n;
}

static void *thread(void *unused)
{
    size_t page = page_size();
    char *all = mmap(NULL, page + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED && mprotect(all, page, PROT_NONE) == 0);
    bottom = all + page;
    memset(bottom, 0x5a, STACK);
    stack_t stack = {.ss_sp = bottom, .ss_size = STACK};
    CHECK(sigaltstack(&stack, NULL) == 0);
    struct sigaction action = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    /* What the kernel and a handler that does nothing need, and what writing needs beyond that. */
    CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0 && came == 1);
    size_t before = untouched();
    memset(bottom, 0x5a, STACK);
    CHECK(pthread_kill(pthread_self(), SIGUSR2) == 0);
    size_t after = untouched();
    CHECK(after > 0 && before - after <= 2560);
    return unused;
}

int main(int argc, char **argv)
{
    (void)argv;
    static char text[1 << 16], name[64], numbered[80];
    if (argc == 2) {
        CHECK(launder(malloc(1000)));
        join(spawn(thread, NULL));
        return 0;
    }
    snprintf(name, sizeof name, "/tmp/toft-small-stack.%d", getpid());
    snprintf(numbered, sizeof numbered, "%s.1", name);
    setenv("TOFT_PROFILE", name, 1);
    setenv("TOFT_PROFILE_AT", "signal:12", 1);
    int status = run_again("child", 2, text, sizeof text);
    if (status != 0)
        fprintf(stderr, "%s", text);
    CHECK(status == 0);
    CHECK(slurp(numbered, text, sizeof text) > 0 && strstr(text, "\"source\":\"signal\""));
    CHECK(strstr(text, "\"build_id\":\"") && strstr(text, "]," ) && strstr(text, "\"objects\":"));
    CHECK(slurp(name, text, sizeof text) > 0 && strstr(text, "\"source\":\"exit\""));
    CHECK(unlink(numbered) == 0 && unlink(name) == 0);
    return 0;
}
