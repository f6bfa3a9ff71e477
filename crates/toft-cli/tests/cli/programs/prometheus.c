#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile kept;
__attribute__((noinline)) void keep_blocks(void) { for (int i = 0; i < 1000; i++) kept = malloc(1000); }
int main(void) { keep_blocks(); write(1, "ready\n", 6); pause(); }
