// A program that replaces the plain operator new and delete by functions that call malloc and free,
// and count: the sized and nothrow forms lead to them. Each block has more bytes than the program
// requests, and begins before the address that it gets, in the second run.
// run: 0
// run: 16
// promise: 6 22
#include "common.h"
#include <new>

static size_t header, blocks;

void *operator new(size_t size)
{
    blocks++;
    return (char *)malloc(size + 32) + header;
}

void operator delete(void *block) noexcept
{
    if (!block)
        return;
    blocks--;
    free((char *)block - header);
}

struct Fails {
    char bytes[100];
    Fails() { throw 1; }
};

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    header = strtoul(argv[1], NULL, 10);
    for (size_t size = 1; size < 300000; size += 1 + size / 5) {
        ::operator delete(launder(::operator new(size)), size);
        CHECK(blocks == 0);
        ::operator delete(launder(::operator new(size, std::nothrow)), size);
        CHECK(blocks == 0);
        ::operator delete(launder(::operator new(size)), std::nothrow);
        CHECK(blocks == 0);
    }
    try {
        delete new (std::nothrow) Fails;
    } catch (int) {
    }
    CHECK(blocks == 0);
    return 0;
}
