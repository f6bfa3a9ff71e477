#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
#define STAY __asm__ volatile("" ::: "memory")
static void *kept[100000];
NOINLINE void *leaf(size_t n) { void *p = malloc(n); STAY; return p; }
NOINLINE void *middle(size_t n) { void *p = leaf(n); STAY; return p; }
NOINLINE void *other(size_t n) { void *p = leaf(n); STAY; return p; }
NOINLINE void *zeroed(size_t n) { void *p = calloc(1, n); STAY; return p; }
NOINLINE void *aligned(size_t n) { void *p = aligned_alloc(64, n); STAY; return p; }
NOINLINE void *moved(void *q, size_t n) { void *p = realloc(q, n); STAY; return p; }
NOINLINE void *deep(int depth, size_t n) { void *p = depth ? deep(depth - 1, n) : malloc(n); STAY; return p; }
static void *thread(void *unused) { for (int i = 0; i < 300; i++) kept[5000 + i] = middle(96); return unused; }
/* malloc, with anything for a frame pointer. */
void *broken(size_t n, uintptr_t frame);
__asm__(".text\n.globl broken\n.type broken, @function\nbroken: push %rbp\nmov %rsi, %rbp\ncall malloc@plt\n"
        "pop %rbp\nret\n.size broken, . - broken\n");
static char *wall;
static void *walled(void *unused) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t frames[] = {here - 64, here + 3, 0xdeadbeefdeadbee8, UINTPTR_MAX - 7, (uintptr_t)wall,
                          (uintptr_t)wall - 8, here + (1 << 21), (uintptr_t)kept};
    for (int i = 0; i < 80; i++) kept[6000 + i] = broken(48, frames[i % 8]);
    return unused;
}
static void join(void *(*body)(void *), pthread_attr_t *how) {
    pthread_t t;
    if (pthread_create(&t, how, body, NULL) || pthread_join(t, NULL)) exit(3);
}
int main(int argc, char **argv) {
    const char *how = argv[1];
    if (!strcmp(how, "exact")) {
        for (int i = 0; i < 1000; i++) kept[i] = middle(48);
        for (int i = 1000; i < 1100; i++) kept[i] = other(48);
        for (int i = 1100; i < 1200; i++) kept[i] = zeroed(64);
        for (int i = 1200; i < 1300; i++) kept[i] = aligned(256);
        for (int i = 1300; i < 1310; i++) kept[i] = middle(300000);
        for (int i = 1310; i < 1360; i++) kept[i] = deep(9, 128);
        for (int i = 0; i < 400; i++) free(kept[i]);
        free(kept[1300]);
        /* A block of 48 bytes keeps its slot. Large blocks are freed there and allocated here. */
        for (int i = 400; i < 500; i++) if (moved(kept[i], 40) != kept[i]) return 4;
        for (int i = 1305; i < 1310; i++) kept[i] = moved(kept[i], 3000000);
        join(thread, NULL);
        for (int i = 5000; i < 5100; i++) free(kept[i]);
    } else if (!strcmp(how, "gone")) {
        for (int i = 0; i < 5000; i++) kept[i] = middle(16 << i % 8);
        for (int i = 0; i < 20; i++) kept[7000 + i] = other(200000);
        join(thread, NULL);
        for (int i = 0; i < 100000; i++) free(kept[i]);
    } else if (!strcmp(how, "many")) {
        static const size_t sizes[] = {16, 80, 512, 3000, 20000};
        for (int i = 0; i < 100000; i++) {
            kept[i] = i % 2 ? middle(sizes[i % 5]) : other(sizes[i % 5]);
            if (i % 4 == 1) { free(kept[i]); kept[i] = NULL; }
        }
    } else if (!strcmp(how, "beside")) {
        for (int i = 0; i < 40000; i++)
            for (int j = 0, place = i * 37 % 64; j < 64; j++) {
                free(middle(1000));
                if (j == place) free(other(64000));
            }
    } else if (!strcmp(how, "broken")) {
        size_t half = 256 << 10;
        char *stack = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        wall = stack + half;
        if (mprotect(wall, half, PROT_NONE)) return 5;
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        if (pthread_attr_setstack(&attr, stack, half)) return 6;
        join(walled, &attr);
        for (int i = 0; i < 10; i++) kept[i] = deep(80, 128);
    } else if (!strcmp(how, "fork")) {
        for (int i = 0; i < 200; i++) kept[i] = middle(48);
        if (!fork()) {
            for (int i = 0; i < 150; i++) free(kept[i]);
            for (int i = 200; i < 230; i++) kept[i] = other(48);
            exit(0);
        }
        while (wait(NULL) > 0) {}
    } else if (!strcmp(how, "wait")) {
        for (int i = 0; i < 1000; i++) kept[i] = middle(48);
        for (int i = 0; i < 10; i++) kept[1000 + i] = other(300000);
        printf("ready\n"); fflush(stdout); pause();
    }
    return 0;
}
