// Threads by the thousand whose last acts are TSD and thread_local destructors that allocate, free
// what other threads left, and leave blocks behind: nothing is lost and nothing hangs.
// flags: -pthread
// timeout: 60
// promise: 24 25
#include "common.h"
#include <atomic>
#include <string>
#include <vector>

static std::atomic<void *> left[64];
static pthread_key_t key;

static void trade(size_t seed)
{
    void *mine = malloc(200 + seed % 2000);
    CHECK(mine);
    free(left[seed % 64].exchange(mine));
}

struct Last {
    std::vector<std::string> words;
    ~Last()
    {
        for (size_t i = 0; i < 10; i++) {
            words.push_back(std::string(50 * i, 'z'));
            trade(words.size() * 13);
        }
    }
};
static thread_local Last last;

static void destructor(void *value)
{
    size_t *round = static_cast<size_t *>(value);
    trade(*round * 31 + 7);
    if (++*round < 4)
        pthread_setspecific(key, round);
    else
        free(round);
}

static void *thread(void *arg)
{
    last.words.push_back("first");
    pthread_setspecific(key, calloc(1, sizeof(size_t)));
    trade(reinterpret_cast<size_t>(arg));
    return nullptr;
}

int main()
{
    CHECK(pthread_key_create(&key, destructor) == 0);
    size_t rss = 0;
    for (size_t round = 0; round < 1000; round++) {
        pthread_t t[8];
        for (size_t i = 0; i < 8; i++)
            t[i] = spawn(thread, reinterpret_cast<void *>(round * 8 + i));
        for (size_t i = 0; i < 8; i++)
            join(t[i]);
        if (round == 400)
            rss = rss_bytes();
    }
    CHECK(rss_bytes() < rss + (4 << 20));
    return 0;
}
