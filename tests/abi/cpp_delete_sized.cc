// Sized delete with the size that was asked for never complains, at any size, of any object.
// promise: 5 6 22
#include "common.h"
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

struct Base {
    long word = 1;
    virtual ~Base() {}
};

struct Derived : Base {
    char bytes[333];
    std::string text = std::string(100, 'd');
};

struct alignas(64) Aligned : Base {
    char bytes[70];
};

struct Counted {
    char byte;
    ~Counted() { byte = 0; }
};

struct Empty {};

int main()
{
    for (size_t size = 0; size < 2000000; size = size + 1 + size / 7) {
        ::operator delete(::operator new(size), size);
        ::operator delete[](::operator new[](size), size);
        for (size_t align = 1; align <= 1 << 18; align *= 2) {
            std::align_val_t a{align};
            ::operator delete(::operator new(size, a), size, a);
            ::operator delete[](::operator new[](size, a), size, a);
        }
    }
    std::vector<std::string> words;
    for (int i = 0; i < 20000; i++)
        words.push_back(std::string((size_t)i % 300, 'a'));
    for (int i = 0; i < 20000; i += 3)
        words[(size_t)i].append(words[(size_t)i / 2]);
    words.erase(words.begin() + 100, words.begin() + 10000);
    words.shrink_to_fit();
    CHECK(words.size() == 10100);

    for (int i = 0; i < 50; i++) {
        Base *derived = new Derived, *aligned = new Aligned;
        delete derived;
        delete aligned;
        delete new Empty;
        delete[] new Counted[(size_t)i];
        delete[] new Aligned[(size_t)i];
        delete[] new long[(size_t)i];
        std::shared_ptr<Base> shared = std::make_shared<Derived>();
        std::unique_ptr<Base> unique = std::make_unique<Aligned>();
        std::map<int, Derived> map;
        std::deque<Counted> deque((size_t)i * 99);
        std::function<int()> function = [=] { return map.empty() ? i : (int)deque.size(); };
        map[function()].bytes[0] = 1;
        deque.shrink_to_fit();
    }
    return 0;
}
