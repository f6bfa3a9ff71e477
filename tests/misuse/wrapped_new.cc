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
#define SITES_ARE_THERE

enum { SITES = 16 };

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
SITE(0) SITE(1) SITE(2) SITE(3) SITE(4) SITE(5) SITE(6) SITE(7)
SITE(8) SITE(9) SITE(10) SITE(11) SITE(12) SITE(13) SITE(14) SITE(15)

static void *(*const site[SITES])(size_t) = {
    site_0, site_1, site_2, site_3, site_4, site_5, site_6, site_7,
    site_8, site_9, site_10, site_11, site_12, site_13, site_14, site_15,
};
#include "pairs.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    form = atoi(argv[1]);
    CHECK(disjoint_pairs(64) == SITES / 2);
    CHECK(disjoint_pairs(1000) == SITES / 2);
    return 0;
}
