// Wrappers of the forms of operator new are looked through, in both builds.
// env: TOFT_WRAPPERS=wrap_new
// run: 0
// run: 1
// run: 2
// run: 3
// run: 4
// run: 5
// timeout: 120
// libc: skip glibc gives anything to anyone
// promise: 16
// aarch64: skip qemu cannot read the stack by a system call
#include <new>
#include "common.h"

static int form;

extern "C" __attribute__((noinline)) void *wrap_new(size_t size)
{
    void *p = nullptr;
    switch (form) {
    case 0: p = ::operator new(size); break;
    case 1: p = ::operator new[](size); break;
    case 2: p = ::operator new(size, std::nothrow); break;
    case 3: p = ::operator new(size, std::align_val_t(16)); break;
    case 4: p = ::operator new[](size, std::align_val_t(16)); break;
    default: p = ::operator new(size, std::align_val_t(16), std::nothrow);
    }
    CHECK(p);
    return p;
}

#define SITE(n)                                                                                    \
    NOINLINE void *site_##n(size_t size)                                                           \
    {                                                                                              \
        void *p = wrap_new(size);                                                                  \
        NO_TAIL_CALL();                                                                            \
        return p;                                                                                  \
    }
#include "site_table.h"
#include "pairs.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    form = atoi(argv[1]);
    CHECK(disjoint_pairs(64) == SITES / 2);
    CHECK(disjoint_pairs(1000) == SITES / 2);
    return 0;
}
