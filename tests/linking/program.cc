#include "program.h"
#include "toft.hpp"
#include <map>
#include <string>
#include <vector>

int main()
{
    std::map<int, int, std::less<int>, toft::allocator<std::pair<const int, int>, 17>> squares;
    for (int i = 0; i < 100; i++)
        squares[i] = i * i;
    toft::zone request("request");
    toft::zone_resource resource(request);
    std::pmr::vector<std::pmr::string> names(100, "a name that is too long for the object", &resource);
    return squares[99] == 9801 && names.size() == 100 ? report() : 1;
}
