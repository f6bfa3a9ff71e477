#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *kept[1000], *volatile other;
__attribute__((noinline)) void fill(void) { for (int i = 0; i < 1000; i++) kept[i] = malloc(100000); }
__attribute__((noinline)) void fill_large(void) { for (int i = 0; i < 100; i++) kept[i] = malloc(1 << 20); }
__attribute__((noinline)) void childs(void) { other = malloc(77777); }
int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    strstr(how, "large") ? fill_large() : fill();
    if (strstr(how, "signal")) raise(SIGUSR2);
    for (int i = 0; i < 500; i++) free(kept[i]);
    if (strstr(how, "fork") && !fork()) { childs(); exit(0); }
    while (wait(NULL) > 0) {}
    if (strstr(how, "leave")) _exit(0);
    return strstr(how, "well") ? 0 : 7;
}
