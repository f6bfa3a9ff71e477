// For a tracer that attaches to a running program. At the first line on its input the program
// allocates as many blocks of 1000 bytes as its word says and frees all but every tenth. It prints
// the bytes that it has had, and goes on until its input ends.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
    static char in[16], out[64];
    char line[16];
    setvbuf(stdin, in, _IOLBF, sizeof in);
    setvbuf(stdout, out, _IOLBF, sizeof out);
    unsigned long had = 0;
    while (fgets(line, sizeof line, stdin)) {
        for (long i = 0; i < (count > 1 ? atol(words[1]) : 0); i++) {
            void *block = malloc(1000);
            had += malloc_usable_size(block);
            if (i % 10) free(block);
        }
        printf("%lu\n", had);
    }
    return 0;
}
