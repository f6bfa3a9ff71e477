// How many blocks of a size are handed out and freed before the first comes back: the number of
// slots that malloc claims at a time.
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    void *first = 0;
    int count = 0;
    for (int round = 0; round < 1000; round++) {
        // One call site, and no other thread allocates meanwhile.
        void *volatile block = malloc(16);
        if (round == 0)
            first = block;
        else if (block == first)
            break;
        count++;
        free(block);
    }
    printf("claim=%d\n", count);
    return 0;
}
