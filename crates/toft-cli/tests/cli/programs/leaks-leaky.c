#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct node { struct node *next; char text[184]; };
static struct node *list;
static void *table[12];
__attribute__((noinline)) static void *lose(void) { return malloc(100); }
__attribute__((noinline)) static void *lose_more(void) { return malloc(50000); }
__attribute__((noinline)) static void *lose_much(void) { return malloc(300000); }
__attribute__((noinline)) static void *keep(void) { return malloc(sizeof(struct node)); }
__attribute__((noinline)) static void all(void) {
    for (int i = 0; i < 10; i++) table[i] = lose();
    table[10] = lose_more();
    table[11] = lose_much();
    for (int i = 0; i < 7; i++) { struct node *n = keep(); n->next = list; list = n; }
    for (int i = 0; i < 12; i++) {
#ifdef TWIN
        free(table[i]);
#endif
        table[i] = NULL;
    }
}
/* What calls have left on the stack. */
__attribute__((noinline)) static void wipe(void) { volatile char room[65536]; memset((void *)room, 0, sizeof room); }
int main(int argc, char **argv) {
    (void)argv;
    printf("begins\n");
    all();
    wipe();
    return argc > 1 ? 7 : 0;
}
