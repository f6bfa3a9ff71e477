// A program that replaces the plain operator new and delete, and no other form: what they handed
// out comes back to them by the sized delete that compilers call, and the nothrow new asks them.
// promise: 22
#include "common.h"
#include <new>
#include <string>
#include <vector>

static char pool[1 << 20];
static size_t used, handed_out, taken_back;

void *operator new(size_t size)
{
    CHECK(size < sizeof pool - used - 16);
    void *block = pool + used;
    used += (size + 15) & ~(size_t)15;
    handed_out++;
    return block;
}

void operator delete(void *block) noexcept
{
    if (!block)
        return;
    CHECK((char *)block >= pool && (char *)block < pool + sizeof pool);
    taken_back++;
}

struct Node {
    Node *next;
    char text[40];
};

int main()
{
    Node *first = new Node;
    CHECK(handed_out == 1);
    delete first;
    CHECK(taken_back == 1);
    ::operator delete(::operator new(100), 100);
    CHECK(taken_back == 2);
    void *quiet = ::operator new(100, std::nothrow);
    CHECK(quiet && handed_out == 3);
    ::operator delete(quiet);
    CHECK(taken_back == 3);
    {
        std::vector<std::string> words;
        for (int i = 0; i < 200; i++)
            words.push_back(std::string(40 + i % 50, 'x'));
    }
    CHECK(handed_out == taken_back);
    delete[] new Node[5];
    CHECK(handed_out == taken_back);
    return 0;
}
