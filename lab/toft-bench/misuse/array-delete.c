// class: 23 Delete an array of objects with destructors as if it were one
// sizes: 3 10 100 4000
// languages: c++
// toft: caught inside
// secure: caught inside
#include "corpus.h"

#ifndef __cplusplus
#error "C++ only"
#endif

struct Item {
    long value;
    Item() : value(1) {}
    ~Item() { value = 0; }
};

static Item *items;

static void prepare(void)
{
    items = new Item[size];
    /* The array begins behind its count. */
    unsigned char *p = (unsigned char *)launder(items) - sizeof(size_t);
    announce_block(p);
    announce("q", items);
}

static void fault(void)
{
    delete (Item *)launder(items);
}

static void correct(void)
{
    delete[] items;
}

static enum verdict outcome(void)
{
    size_t length = size * sizeof(Item);
    size = length + sizeof(size_t);
    return of_the_heap(items, length);
}
