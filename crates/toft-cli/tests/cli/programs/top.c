#include <stdio.h>
#include <stdlib.h>
static void *volatile sink;
__attribute__((noinline)) void resting(void) { for (int i = 0; i < 1000; i++) sink = malloc(2000); }
__attribute__((noinline)) void small(void) { for (int i = 0; i < 5000; i++) sink = malloc(50); }
__attribute__((noinline)) void growing(void) { for (int i = 0; i < 100; i++) sink = malloc(1000); }
__attribute__((noinline)) void churning(void) { for (int i = 0; i < 1000; i++) free(sink = malloc(3000)); }
int main(void) {
    // Or the first read allocates, between two looks.
    static char buffer[4096];
    setvbuf(stdin, buffer, _IOFBF, sizeof buffer);
    char line[10];
    resting(); small(); growing();
    puts("ready"); fflush(stdout);
    while (fgets(line, sizeof line, stdin)) { if (*line == 'c') churning(); else growing(); puts("grown"); fflush(stdout); }
}
