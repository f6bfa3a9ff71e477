// Toft for C++17: an allocator for containers, and zones as objects and as memory resources.
//
// A program needs nothing from this header to run on Toft: the library replaces operator new and
// delete. The classes here group memory: the blocks of a container by a token, the memory of a
// request by a zone.
#ifndef TOFT_HPP
#define TOFT_HPP

#include "toft.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory_resource>
#include <new>
#include <utility>

namespace toft {

// An allocator for containers of the standard library. Blocks of one token are in one partition,
// wherever they are allocated; `toft heap` shows them on one line. Stateless: all allocators of a
// token are equal.
//
//     std::vector<int, toft::allocator<int, 17>> numbers;
template <class T, std::uint64_t Token>
struct allocator {
    using value_type = T;
    template <class U>
    struct rebind {
        using other = allocator<U, Token>;
    };

    allocator() noexcept = default;
    template <class U>
    allocator(const allocator<U, Token> &) noexcept
    {
    }

    T *allocate(std::size_t count)
    {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
            throw std::bad_array_new_length();
        const std::size_t bytes = count * sizeof(T);
        void *block = alignof(T) > alignof(std::max_align_t)
                          ? toft_aligned_alloc_at(alignof(T), bytes, Token)
                          : toft_malloc_at(bytes, Token);
        if (!block)
            throw std::bad_alloc();
        return static_cast<T *>(block);
    }

    void deallocate(T *block, std::size_t) noexcept { std::free(block); }

    template <class U>
    friend bool operator==(const allocator &, const allocator<U, Token> &) noexcept
    {
        return true;
    }
    template <class U>
    friend bool operator!=(const allocator &, const allocator<U, Token> &) noexcept
    {
        return false;
    }
};

// Owns a zone. The destructor destroys the zone and frees every block in it. Movable, not copyable.
class zone {
public:
    // Throws std::bad_alloc if there is no memory for a zone.
    explicit zone(const char *name = nullptr) : handle_(toft_zone_create(name))
    {
        if (!handle_)
            throw std::bad_alloc();
    }
    zone(zone &&other) noexcept : handle_(std::exchange(other.handle_, 0)) {}
    zone &operator=(zone &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }
    zone(const zone &) = delete;
    zone &operator=(const zone &) = delete;
    ~zone()
    {
        if (handle_)
            toft_zone_destroy(handle_);
    }

    // The handle for the functions of toft.h.
    toft_zone handle() const noexcept { return handle_; }

private:
    toft_zone handle_;
};

// A memory resource over a zone, for std::pmr containers. The zone must outlive it.
//
//     toft::zone request("request 17");
//     toft::zone_resource resource(request);
//     std::pmr::string name("in a zone", &resource);
class zone_resource : public std::pmr::memory_resource {
public:
    explicit zone_resource(const zone &of) noexcept : handle_(of.handle()) {}

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        void *block = alignment > alignof(std::max_align_t)
                          ? toft_zone_aligned_alloc(handle_, alignment, bytes)
                          : toft_zone_malloc(handle_, bytes);
        if (!block)
            throw std::bad_alloc();
        return block;
    }
    void do_deallocate(void *block, std::size_t, std::size_t) override
    {
        toft_zone_free(handle_, block);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        const auto *same = dynamic_cast<const zone_resource *>(&other);
        return same && same->handle_ == handle_;
    }

    toft_zone handle_;
};

} // namespace toft

#endif
