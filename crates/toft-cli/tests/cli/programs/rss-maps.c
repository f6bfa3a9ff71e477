#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    char *block = malloc(100);
    int mapped = 0;
    /* Four GiB apart, beginning behind those of the first block. */
    for (uintptr_t step = 1; step <= 400 && mapped < 64; step += 5) {
        char *at = (char *)(((uintptr_t)block >> 32) + step << 32);
        char *p = mmap(at, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (p == MAP_FAILED) continue;
        memset(p, 1, 1 << 20);
        mapped++;
    }
    printf("{\"pid\": %d, \"mapped\": %d}\n{}\n", getpid(), mapped);
    fflush(stdout);
    pause();
}
