/* Stacks of which a walk by frame pointers does not see a part, or sees what is none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#define NOINLINE __attribute__((noinline))
#define STAY __asm__ volatile("" ::: "memory")
static void *kept[1000];
static int count;
/* Without a frame. */
void *plain(size_t n);
/* Jumps to leaf. */
void *jumper(size_t n);
/* Has the caller's address. */
void *visited(void);
/* malloc, with anything for a frame pointer. */
void *stale(size_t n, uintptr_t *frame);
void *stale_in_toft(size_t n, uintptr_t *frame);
__asm__(".text\n"
        ".type plain, @function\nplain: sub $8, %rsp\ncall malloc@plt\nadd $8, %rsp\nret\n.size plain, . - plain\n"
        ".type jumper, @function\njumper: jmp leaf\n.size jumper, . - jumper\n"
        ".type visited, @function\nvisited: mov (%rsp), %rax\nret\n.size visited, . - visited\n"
        ".type stale, @function\nstale: push %rbp\nmov %rsi, %rbp\ncall malloc@plt\npop %rbp\nret\n.size stale, . - stale\n"
        ".type stale_in_toft, @function\nstale_in_toft: push %rbp\nmov %rsi, %rbp\ncall malloc@plt\npop %rbp\nret\n"
        ".size stale_in_toft, . - stale_in_toft\n");
NOINLINE __attribute__((used)) void *leaf(size_t n) { void *p = malloc(n); STAY; return p; }
NOINLINE void *hidden(size_t n) { void *p = plain(n); STAY; return p; }
NOINLINE void *through(size_t n) { void *p = jumper(n); STAY; return p; }
NOINLINE void *visitor(void) { void *p = visited(); STAY; return p; }
/* An address in the library after `call *%r12` or a like one, which may have gone anywhere. */
static void *in_toft(void) {
    unsigned char *code = dlsym(RTLD_DEFAULT, "malloc");
    while (!(code[-3] == 0x41 && code[-2] == 0xFF && code[-1] >= 0xD4 && code[-1] <= 0xD7)) code++;
    return code;
}
int main(void) {
    uintptr_t own = (uintptr_t)__builtin_frame_address(0);
    uintptr_t frame[] = {own, (uintptr_t)visitor()}, of_toft[] = {own, (uintptr_t)in_toft()};
    for (int i = 0; i < 100; i++) {
        kept[count++] = hidden(48);
        kept[count++] = through(64);
        kept[count++] = stale(80, frame);
        kept[count++] = stale_in_toft(96, of_toft);
    }
    return 0;
}
