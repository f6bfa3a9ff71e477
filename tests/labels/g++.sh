# g++'s compiler proper on containers and regular expressions.
# needs: g++ g++
# language: C++
# symbols: exported
# below: most of its functions have no symbol
# own: cc1plus
. "$LABELS/lib/labelled.sh"
cat >large.cc <<'C'
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <unordered_map>
#include <vector>
int main() {
    std::map<std::string, std::vector<int>> m;
    m["a"].push_back(1);
    std::cout << std::regex_replace(std::string(" a1b22"), std::regex("[0-9]+"), "#") << m.size();
}
C
g++ -std=c++17 -E large.cc -o large.ii
ends "$(g++ -print-prog-name=cc1plus)" -quiet -O1 large.ii -o large.s
