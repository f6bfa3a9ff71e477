// An array of objects with destructors, which starts after its count, deleted as one object.
// expect: signal ABRT
// stderr: toft: invalid free: operator delete({q}): 8 bytes inside the {size}-byte block at {p} (small slab, slot {n}, partition {n}, live; call site {addr})
// libc: skip glibc says it in other words or not at all
// twin: uses delete[]
// promise: 4
#include "common.h"

struct Item {
    long value;
    Item() : value(1) {}
    ~Item() { value = 0; }
};

HELPER Item *launder_item(Item *p)
{
    return static_cast<Item *>(launder(p));
}

int main(void)
{
    Item *items = new Item[10];
    char *p = static_cast<char *>(launder(items)) - 8;
    announce_block(p);
    announce("q", items);
    MISUSE(delete launder_item(items);)
    CORRECT(delete[] items;)
    return END;
}
