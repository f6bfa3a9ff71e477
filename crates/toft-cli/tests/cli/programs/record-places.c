#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int count, char **words) {
    long places = atol(words[1]);
    unsigned char *code = mmap(0, places * 32, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *here = code;
    void *(*function)(size_t) = malloc;
    for (long i = 0; i < places; i++, here += 32) {
        /* sub rsp, 8; mov edi, 8; mov rax, function; call rax; add rsp, 8; ret */
        memcpy(here, "\x48\x83\xec\x08\xbf\x08\0\0\0\x48\xb8", 11);
        memcpy(here + 11, &function, 8);
        memcpy(here + 19, "\xff\xd0\x48\x83\xc4\x08\xc3", 7);
        free(((void *(*)(void))here)());
    }
    return 0;
}
