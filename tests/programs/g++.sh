# g++ compiles templates and the standard library; the program says what it must.
# needs: g++ g++
# timeout: 200
awk 'BEGIN {
    print "#include <algorithm>\n#include <functional>\n#include <iostream>\n#include <map>\n#include <memory>\n#include <regex>\n#include <string>\n#include <tuple>\n#include <unordered_map>\n#include <vector>";
    print "template <int N> struct Deep { typedef std::tuple<std::vector<std::string>, std::map<int, Deep<N - 1>>> type; static long sum() { return N + Deep<N - 1>::sum(); } };\ntemplate <> struct Deep<0> { static long sum() { return 0; } };";
    for (i = 0; i < 25; i++)
        printf "long g%d() { std::map<std::string, std::vector<int>> m; for (int i = 0; i < 100; i++) m[std::to_string(i %% %d)].push_back(i); std::unordered_map<int, std::shared_ptr<std::string>> u; u[%d] = std::make_shared<std::string>(\"x\"); std::function<long(long)> f = [&](long a) { return a + (long)m.size(); }; return f(%d) + Deep<%d>::sum(); }\n", i, i + 3, i, i, i * 9 + 5;
    print "int main() { long s = 0;";
    for (i = 0; i < 25; i++) printf "s += g%d();\n", i;
    print "std::cout << s << std::regex_replace(std::string(\" a1b22\"), std::regex(\"[0-9]+\"), \"#\") << std::endl; }";
}' >large.cc
g++ -std=c++17 -O1 -c large.cc -o large.o
sha256sum large.o
g++ large.o -o large
./large
