// toft.hpp: containers by token, and in zones.
#include "toft.hpp"
#include "common.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

struct alignas(256) wide {
    int value;
};

static uint64_t live(const toft::zone &zone)
{
    struct toft_zone_stats stats;
    CHECK(toft_zone_stats(zone.handle(), &stats) == 0);
    return stats.live_blocks;
}

int main()
{
    std::vector<int, toft::allocator<int, 17>> numbers;
    for (int i = 0; i < 100000; i++)
        numbers.push_back(i);
    CHECK(numbers[99999] == 99999);
    // Nodes are of another type than the values.
    std::map<int, int, std::less<int>, toft::allocator<std::pair<const int, int>, 17>> squares;
    for (int i = 0; i < 1000; i++)
        squares[i] = i * i;
    CHECK(squares[999] == 998001);
    std::vector<wide, toft::allocator<wide, 18>> wides(10);
    CHECK(reinterpret_cast<uintptr_t>(wides.data()) % 256 == 0);
    CHECK((toft::allocator<int, 17>() == toft::allocator<char, 17>()));
    bool refused = false;
    try {
        toft::allocator<wide, 18>().allocate(SIZE_MAX / 2);
    } catch (const std::bad_alloc &) {
        refused = true;
    }
    CHECK(refused);

    toft::zone request("request 17"), other;
    {
        toft::zone_resource resource(request), same(request), apart(other);
        CHECK(resource == same && !(resource == apart) && !resource.is_equal(*std::pmr::new_delete_resource()));
        std::pmr::vector<std::pmr::string> names(&resource);
        for (int i = 0; i < 1000; i++)
            names.emplace_back("a name that is too long for the object itself");
        CHECK(live(request) == 1001 && live(other) == 0);
        std::pmr::vector<wide> aligned(10, &resource);
        CHECK(reinterpret_cast<uintptr_t>(aligned.data()) % 256 == 0);
    }
    CHECK(live(request) == 0);
    toft::zone moved(std::move(request));
    CHECK(request.handle() == 0 && moved.handle() != 0);
    other = std::move(moved);
    CHECK(live(other) == 0);
    return 0;
}
