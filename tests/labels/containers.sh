# A C++ program with the containers of the standard library, which all keep something.
# needs: g++ g++
# language: C++
# symbols: all
# own: program
. "$LABELS/lib/labelled.sh"
cat >program.cc <<'C'
#include <algorithm>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
struct Item { std::string name; std::vector<double> prices; std::map<int, std::string> notes; };
struct Node { std::shared_ptr<Node> left, right; std::string key; };
static auto &items = *new std::vector<Item>;
static auto &index_of = *new std::unordered_map<std::string, std::size_t>;
static auto &tags = *new std::map<std::string, std::set<std::string>>;
static auto &queue = *new std::deque<std::string>;
static auto &history = *new std::list<std::pair<int, std::string>>;
static auto &actions = *new std::vector<std::function<std::string()>>;
static auto &heap = *new std::priority_queue<std::string>;
static std::shared_ptr<Node> root;
static std::string name_of(int i) { return "an item with the number " + std::to_string(i); }
static void add_items(int n) {
    for (int i = 0; i < n; i++) items.push_back({name_of(i), std::vector<double>(i % 40 + 1), {}});
}
static void add_notes() {
    for (auto &item : items) for (int i = 0; i < 3; i++) item.notes[i] = item.name + " has a note";
}
static void make_index() { for (std::size_t i = 0; i < items.size(); i++) index_of[items[i].name] = i; }
static void add_tags() {
    for (auto &item : items) tags["tag " + item.name.substr(24, 2)].insert(item.name);
}
static void fill_queue() { for (auto &item : items) queue.push_back(item.name + " waits in line"); }
static void record(int n) { for (int i = 0; i < n; i++) history.emplace_back(i, name_of(i)); }
static void add_actions() {
    for (auto &item : items) actions.emplace_back([copy = item.name, all = item.prices] { return copy; });
}
static void insert(std::shared_ptr<Node> &at, const std::string &key) {
    if (!at) at = std::make_shared<Node>(Node{nullptr, nullptr, key});
    else insert(key < at->key ? at->left : at->right, key);
}
static void grow_tree(int n) { for (int i = 0; i < n; i++) insert(root, name_of(i * 7919 % 10007)); }
static void fill_heap() { for (auto &item : items) heap.push(item.name); }
static std::size_t print_all() {
    std::ostringstream out;
    for (auto &item : items) out << item.name << item.prices.size() << '\n';
    return out.str().size();
}
int main() {
    add_items(5000); add_notes(); make_index(); add_tags(); fill_queue(); record(5000);
    add_actions(); grow_tree(5000); fill_heap();
    return print_all() == 0;
}
C
g++ -std=c++17 -g -O2 program.cc -o program
ends ./program
