#include <stdlib.h>
#include <string.h>
/* `serve` loses 3 requests; each holds a list of 10 entries that `put` has made. `ring` loses 4
   blocks that point to each other, with a tail of 2. `owner` loses one block that holds 3 older ones
   of `part`. Only the twin frees them. */
struct entry { struct entry *next; char text[700]; };
struct request { int number; struct entry *first; };
struct link { struct link *next, *tail; };
struct __attribute__((packed)) odd { char c; void *p; };
static struct request *table[3];
static struct link *links[6];
static void **owned, *parts[3];
static struct odd odd;
__attribute__((noinline)) static struct entry *put(void) { return calloc(1, sizeof(struct entry)); }
__attribute__((noinline)) static struct request *serve(void) { return calloc(1, sizeof(struct request)); }
__attribute__((noinline)) static struct link *ring(void) { return calloc(1, 160); }
__attribute__((noinline)) static void *part(void) { return calloc(1, 48); }
__attribute__((noinline)) static void **owner(void) { return calloc(1, 112); }
__attribute__((noinline)) static struct odd *held(void) { return calloc(1, 333); }
__attribute__((noinline)) static void *packed(void) { return calloc(1, 4444); }
__attribute__((noinline)) static void all(void) {
    for (int i = 0; i < 3; i++) parts[i] = part();
    owned = owner();
    memcpy(owned, parts, sizeof parts);
    for (int i = 0; i < 3; i++) {
        table[i] = serve();
        for (int j = 0; j < 10; j++) {
            struct entry *e = put();
            e->next = table[i]->first;
            table[i]->first = e;
        }
    }
    for (int i = 0; i < 6; i++) links[i] = ring();
    for (int i = 0; i < 4; i++) links[i]->next = links[(i + 1) % 4];
    links[2]->tail = links[4];
    links[4]->tail = links[5];
    /* Not lost: the words that lead to the three blocks are not aligned. */
    odd.p = held();
    ((struct odd *)odd.p)->p = packed();
    ((struct odd *)((struct odd *)odd.p)->p)->p = packed();
#ifdef TWIN
    for (int i = 0; i < 3; i++)
        for (struct entry *e = table[i]->first, *next; e; e = next) { next = e->next; free(e); }
    for (int i = 0; i < 3; i++) free(table[i]);
    for (int i = 0; i < 6; i++) free(links[i]);
    for (int i = 0; i < 3; i++) free(owned[i]);
    free(owned);
#endif
    memset(table, 0, sizeof table);
    memset(links, 0, sizeof links);
    memset(parts, 0, sizeof parts);
    owned = NULL;
}
/* What calls have left on the stack. */
__attribute__((noinline)) static void wipe(void) { volatile char room[65536]; memset((void *)room, 0, sizeof room); }
int main(void) {
    all();
    wipe();
    return 0;
}
