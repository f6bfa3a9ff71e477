// When memory is short, operator new calls the new-handler until it helps or throws; without one it
// throws bad_alloc; the nothrow forms give a null pointer.
// promise: 5 20 22
#include "common.h"
#include <new>

static int calls;
static rlimit normal;
/* Less than the system could give, more than the limit allows. */
static const size_t big = (size_t)1 << 30;

static void limit_memory()
{
    /* A free block that is kept would serve the next request. */
    purge_all();
    rlimit low = normal;
    low.rlim_cur = vsz_bytes() + (64 << 20);
    CHECK(setrlimit(RLIMIT_AS, &low) == 0);
}

static void helps_the_third_time()
{
    if (++calls == 3)
        CHECK(setrlimit(RLIMIT_AS, &normal) == 0);
}

struct Own {};

static void throws_own()
{
    calls++;
    throw Own();
}

static void throws_bad_alloc()
{
    calls++;
    throw std::bad_alloc();
}

static void gives_up()
{
    if (++calls == 5)
        std::set_new_handler(nullptr);
}

template <class F> static void each_form(F check)
{
    std::align_val_t a{4096};
    check([=] { return ::operator new(launder_size(big)); },
          [](void *p) { ::operator delete(p); });
    check([=] { return ::operator new[](launder_size(big)); },
          [](void *p) { ::operator delete[](p); });
    check([=] { return ::operator new(launder_size(big), a); },
          [=](void *p) { ::operator delete(p, a); });
    check([=] { return ::operator new[](launder_size(big), a); },
          [=](void *p) { ::operator delete[](p, a); });
    /* The C++ library rounds this size up to the alignment before it asks again. */
    check([=] { return ::operator new(launder_size(big - 100), a); },
          [=](void *p) { ::operator delete(p, big - 100, a); });
}

template <class F> static void each_nothrow_form(F check)
{
    std::align_val_t a{4096};
    check([=] { return ::operator new(launder_size(big), std::nothrow); });
    check([=] { return ::operator new[](launder_size(big), std::nothrow); });
    check([=] { return ::operator new(launder_size(big), a, std::nothrow); });
    check([=] { return ::operator new[](launder_size(big), a, std::nothrow); });
}

int main()
{
    CHECK(getrlimit(RLIMIT_AS, &normal) == 0);
    each_form([](auto take, auto give) {
        limit_memory();
        std::set_new_handler(helps_the_third_time);
        calls = 0;
        void *p = take();
        CHECK(p && calls == 3);
        give(p);

        limit_memory();
        std::set_new_handler(throws_own);
        calls = 0;
        bool caught = false;
        try {
            give(take());
        } catch (Own &) {
            caught = true;
        }
        CHECK(caught && calls == 1);

        std::set_new_handler(gives_up);
        calls = 0;
        caught = false;
        try {
            give(take());
        } catch (std::bad_alloc &) {
            caught = true;
        }
        CHECK(caught && calls == 5);
        CHECK(setrlimit(RLIMIT_AS, &normal) == 0);
    });
    each_nothrow_form([](auto take) {
        limit_memory();
        std::set_new_handler(nullptr);
        CHECK(take() == nullptr);
        /* A nothrow form still asks the handler, and turns its bad_alloc into a null pointer. */
        std::set_new_handler(throws_bad_alloc);
        calls = 0;
        CHECK(take() == nullptr && calls == 1);
        std::set_new_handler(gives_up);
        calls = 0;
        CHECK(take() == nullptr && calls == 5);
        CHECK(setrlimit(RLIMIT_AS, &normal) == 0);
    });
    return 0;
}
