#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void *toft_malloc_at(size_t, unsigned long) __attribute__((weak));
static void *volatile kept;
int main(void) {
    for (int i = 0; i < 1000; i++) { kept = toft_malloc_at(100, 17); kept = malloc(200); }
    puts("ready"); fflush(stdout); pause();
}
