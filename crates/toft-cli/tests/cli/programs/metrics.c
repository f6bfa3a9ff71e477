#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern int toft_metrics(int) __attribute__((weak));
static size_t bytes;
static void *had(void *block) { bytes += malloc_usable_size(block); return block; }
static void *volatile sink;
__attribute__((noinline)) void small(void) { for (int i = 0; i < 3000; i++) sink = had(malloc(50)); }
__attribute__((noinline)) void medium(void) { for (int i = 0; i < 500; i++) sink = had(malloc(5000)); }
__attribute__((noinline)) void large(void) { for (int i = 0; i < 4; i++) sink = had(malloc(1 << 20)); }
static void *passing[5000];
__attribute__((noinline)) void pass(void) {
    for (int i = 0; i < 5000; i++) memset(passing[i] = malloc(5000), 1, 5000);
    void *big = malloc(1 << 20);
    memset(big, 1, 1 << 20);
    for (int i = 0; i < 5000; i++) free(passing[i]);
    free(big);
}
static void figures(const char *name) {
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || !toft_metrics || toft_metrics(fd) != 0 || toft_metrics(-1) != -1) _exit(9);
    close(fd);
}
int main(int argc, char **argv) {
    static char out[100], in[10];
    setvbuf(stdout, out, _IOLBF, sizeof out);
    setvbuf(stdin, in, _IOLBF, sizeof in);
    small(); medium(); large();
    char line[10];
    do {
        printf("%zu\n", bytes);
        if (!fgets(line, sizeof line, stdin)) break;
        switch (*line) {
        case 'm': figures(argv[1]); break;
        case 'p': pass(); break;
        case 'd': free(passing[0]); break;
        default: medium();
        }
    } while (1);
}
