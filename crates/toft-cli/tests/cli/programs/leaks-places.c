#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
/* Blocks that one pointer leads to, each from another place. None is lost, unless the argument is
   the name of a place, whose pointer then goes. */
enum { KEYS = 100, STACK = 65536 };
struct __attribute__((packed)) odd { char c; void *p; };
static __thread void *local;
static pthread_key_t keys[KEYS];
static void **shared, **private, *interior;
static uintptr_t tagged;
static struct odd odd;
static ucontext_t main_context, coroutine;
static pthread_barrier_t ready;
static const char *lost;
/* What calls have left on the stack. */
__attribute__((noinline)) static void wipe(void) { volatile char room[32768]; memset((void *)room, 0, sizeof room); }
/* What calls have left in the registers of arguments, which swapcontext saves. */
__attribute__((noinline)) static void forget(long a, long b, long c, long d, long e, long f) { __asm__ volatile("" : : "r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f)); }
static int goes(const char *place) { return !strcmp(lost, place); }
__attribute__((noinline)) static void *of_local(void) { return malloc(1011); }
__attribute__((noinline)) static void *of_key(void) { return malloc(1111); }
__attribute__((noinline)) static void *of_thread_local(void) { return malloc(1211); }
__attribute__((noinline)) static void *of_thread_key(void) { return malloc(1311); }
__attribute__((noinline)) static void *of_thread_stack(void) { return malloc(1411); }
__attribute__((noinline)) static void *of_shared(void) { return malloc(1511); }
__attribute__((noinline)) static void *of_private(void) { return malloc(1611); }
__attribute__((noinline)) static void *of_tagged(void) { return malloc(1711); }
__attribute__((noinline)) static void *of_interior(void) { return malloc(7777); }
__attribute__((noinline)) static void *of_packed(void) { return malloc(1811); }
__attribute__((noinline)) static void *of_coroutine(void) { return malloc(1911); }
__attribute__((noinline)) static void set_in_thread(void) {
    local = of_thread_local();
    pthread_setspecific(keys[90], of_thread_key());
    if (goes("of_thread_local")) local = NULL;
    if (goes("of_thread_key")) pthread_setspecific(keys[90], NULL);
}
static void *thread(void *argument) {
    void *volatile on_stack = of_thread_stack();
    if (goes("of_thread_stack")) on_stack = NULL;
    set_in_thread();
    wipe();
    pthread_barrier_wait(&ready);
    for (;;) pause();
    return argument;
}
static void in_coroutine(void) {
    void *volatile on_stack = of_coroutine();
    if (goes("of_coroutine")) on_stack = NULL;
    wipe();
    forget(0, 0, 0, 0, 0, 0);
    swapcontext(&coroutine, &main_context);
    free(on_stack);
}
static void *mapped(size_t size, int flags) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) abort();
    return p;
}
__attribute__((noinline)) static void set_in_main(void) {
    local = of_local();
    pthread_setspecific(keys[80], of_key());
    *shared = of_shared();
    private[777] = of_private();
    tagged = (uintptr_t)of_tagged() | 1;
    interior = (char *)of_interior() + 1234;
    odd.p = of_packed();
    if (goes("of_local")) local = NULL;
    if (goes("of_key")) pthread_setspecific(keys[80], NULL);
    if (goes("of_shared")) *shared = NULL;
    if (goes("of_private")) private[777] = NULL;
    if (goes("of_tagged")) tagged = 0;
    if (goes("of_interior")) interior = NULL;
    if (goes("of_packed")) odd.p = NULL;
}
int main(int argc, char **argv) {
    pthread_t other;
    lost = argc > 1 ? argv[1] : "";
    pthread_barrier_init(&ready, NULL, 2);
    for (int i = 0; i < KEYS; i++) if (pthread_key_create(keys + i, NULL)) return 1;
    shared = mapped(4096, MAP_SHARED);
    private = mapped(65536, MAP_PRIVATE);
    if (pthread_create(&other, NULL, thread, NULL)) return 1;
    pthread_barrier_wait(&ready);
    set_in_main();
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = mapped(STACK, MAP_PRIVATE);
    coroutine.uc_stack.ss_size = STACK;
    coroutine.uc_link = &main_context;
    makecontext(&coroutine, in_coroutine, 0);
    swapcontext(&main_context, &coroutine);
    wipe();
    return 0;
}
