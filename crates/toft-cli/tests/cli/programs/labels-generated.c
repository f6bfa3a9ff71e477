#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    /* push rbp; mov rbp, rsp; mov rax, malloc; call rax; pop rbp; ret */
    unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x5d, 0xc3};
    void *(*target)(size_t) = malloc;
    memcpy(code + 6, &target, sizeof target);
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    void *(*generated)(size_t) = (void *(*)(size_t))page;
    for (int i = 0; i < 1000; i++) memset(generated(1000), 1, 1000);
    char name[100];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx %zx JS:*handle /srv/app.js:3:18\n", (unsigned long)page, sizeof code);
    fclose(map);
    puts("ready"); fflush(stdout); pause();
}
