// Sized delete with the size that was asked for never complains, at any size.
// promise: 5 6 22
#include "common.h"
#include <new>
#include <string>
#include <vector>

int main()
{
    for (size_t size = 0; size < 2000000; size = size + 1 + size / 9) {
        ::operator delete(::operator new(size), size);
        ::operator delete[](::operator new[](size), size);
        ::operator delete(::operator new(size, std::align_val_t{128}), size, std::align_val_t{128});
    }
    std::vector<std::string> words;
    for (int i = 0; i < 20000; i++)
        words.push_back(std::string((size_t)i % 300, 'a'));
    for (int i = 0; i < 20000; i += 3)
        words[(size_t)i].append(words[(size_t)i / 2]);
    words.erase(words.begin() + 100, words.begin() + 10000);
    words.shrink_to_fit();
    CHECK(words.size() == 10100);
    return 0;
}
