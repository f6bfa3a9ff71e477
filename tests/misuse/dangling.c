// toft_dangling names a word of a live block, of a global variable and of a mapping that lead into
// blocks which were freed: small, medium and large ones, their start and their middle. Not the
// twin, which clears them; and not words that lead to live blocks, after their ends, or to slots
// never handed out.
// env: TOFT_REPORT=line
// stderr: toft: dangling pointer: look({global}): a word of {re:.*/dangling} leads to byte 0 of the freed {n}-byte block at {c} (large, slot 0, partition {n}; call site {addr})
// stderr: toft: dangling pointer: look({mapped}): a word of {re:.*} leads to byte 5 of the freed {n}-byte block at {b} (medium, slot {n}, partition {n}; call site {addr})
// stderr: toft: dangling pointer: look({word}): byte 8 of the live {n}-byte block at {n1} leads to byte 0 of the freed {n}-byte block at {a} (small, slot {n}, partition {n}; call site {addr})
// stderr: toft: dangling pointer: look({second}): byte 16 of the live {n}-byte block at {n1} leads to byte 9 of the freed {n}-byte block at {a} (small, slot {n}, partition {n}; call site {addr})
// libc: skip it has no such function
// expect: exit 4
// twin: clears them
// promise: 28
#include "dangling.h"

struct node {
    size_t value;
    char *next, *other, *end[3];
};

static char *global = (char *)1;

/* So that no word of it stays on the stack. */
NOINLINE void fill_in(struct node *n, char **mapped)
{
    n->next = launder(malloc(100));
    announce("a", n->next);
    announce_number("small", malloc_usable_size(n->next));
    n->other = n->next + 9;
    *mapped = launder(malloc(5000));
    announce("b", *mapped);
    announce_number("medium", malloc_usable_size(*mapped));
    *mapped += 5;
    global = launder(malloc(300000));
    announce("c", global);
    announce_number("large", malloc_usable_size(global));
    free(n->next);
    free(*mapped - 5);
    free(global);
    NO_TAIL_CALL();
}

/* A block and its end, where a freed one begins; and no more. */
NOINLINE void pointer_to_the_end(struct node *n)
{
    enum { MANY = 64 };
    static char *block[MANY];
    size_t size = malloc_usable_size(launder(n));
    for (int i = 0; i < MANY; i++)
        CHECK((block[i] = launder(malloc(48))));
    size = malloc_usable_size(block[0]);
    for (int i = 0; i + 1 < MANY; i++)
        for (int j = 0; j < MANY; j++)
            if (block[i] && block[j] == block[i] + size && !n->end[0]) {
                n->end[0] = block[i];
                n->end[2] = block[j];
                free(block[j]);
                block[j] = NULL;
            }
    for (int i = 0; i < MANY; i++)
        if (block[i] != n->end[0])
            block[i] = NULL;
    NO_TAIL_CALL();
}

int main(void)
{
    size_t (*dangling)(void) = (size_t(*)(void))symbol("toft_dangling");
    CHECK(dangling);
    char **mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    struct node *n = launder(calloc(1, sizeof *n));
    announce("n1", n);
    announce_number("node", malloc_usable_size(n));
    announce("word", &n->next);
    announce("second", &n->other);
    announce("global", &global);
    announce("mapped", mapped);
    pointer_to_the_end(n);
    fill_in(n, mapped);
    clear_stack();
    CORRECT(n->next = n->other = NULL; *mapped = NULL; global = NULL;)
    size_t found = dangling();
    CHECK(n->value == 0);
    return (int)found;
}
