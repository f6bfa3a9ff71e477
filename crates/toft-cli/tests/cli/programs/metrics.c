#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
extern int toft_metrics(int) __attribute__((weak));
static size_t bytes;
static void *had(void *block) { bytes += malloc_usable_size(block); return block; }
static void *volatile sink;
__attribute__((noinline)) void small(void) { for (int i = 0; i < 3000; i++) sink = had(malloc(50)); }
__attribute__((noinline)) void medium(void) { for (int i = 0; i < 500; i++) sink = had(malloc(5000)); }
__attribute__((noinline)) void large(void) { for (int i = 0; i < 4; i++) sink = had(malloc(1 << 20)); }
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
    do printf("%zu\n", bytes);
    while (fgets(line, sizeof line, stdin) && (*line == 'm' ? figures(argv[1]) : medium(), 1));
}
