#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile kept;
static __attribute__((noinline)) void keep_blocks(void) { for (int i = 0; i < 1000; i++) kept = malloc(100); }
int main(void) { keep_blocks(); puts("ready"); fflush(stdout); pause(); }
