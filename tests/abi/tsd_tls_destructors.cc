// Thread-specific-data destructors (in every round pthread allows) and C++ thread_local destructors
// allocate and free, whatever of the allocator's own thread state is gone by then.
// flags: -pthread
// promise: 24
#include "common.h"
#include <string>
#include <vector>

static pthread_key_t key[8];

static void *touch(size_t seed)
{
    void *p = malloc(200 + seed * 100);
    CHECK(p);
    for (size_t i = 0; i < 50; i++)
        free(malloc(i * (i % 10 ? 30 : 30000)));
    return p;
}

static void destructor(void *value)
{
    size_t *count = (size_t *)value;
    touch(3);
    if (++count[0] < PTHREAD_DESTRUCTOR_ITERATIONS) {
        /* Sets itself again, to run in the next round, after others' destructors ran. */
        size_t *next = (size_t *)malloc(64);
        CHECK(next);
        *next = *count;
        pthread_setspecific(key[count[1] % 8], next);
        next[1] = count[1];
    }
    free(count);
}

struct Noisy {
    std::vector<std::string> words;
    Noisy()
    {
        for (int i = 0; i < 20; i++)
            words.push_back(std::string(100 + i, 'x'));
    }
    ~Noisy()
    {
        words.push_back(std::string(3000, 'y'));
        std::vector<std::string> copy = words;
        CHECK(copy.back().size() == 3000);
    }
};

static thread_local Noisy noisy;

static void *thread(void *arg)
{
    CHECK(noisy.words.size() == 20);
    for (size_t i = 0; i < 8; i++) {
        size_t *count = (size_t *)malloc(64);
        CHECK(count);
        count[0] = 0;
        count[1] = i;
        pthread_setspecific(key[i], count);
    }
    return arg;
}

/* A thread whose first allocation ever is in a destructor. */
static void first_in_destructor(void *)
{
    free(malloc(100));
}

static void *silent(void *arg)
{
    pthread_setspecific(*(pthread_key_t *)arg, arg);
    return NULL;
}

int main()
{
    for (int i = 0; i < 8; i++)
        CHECK(pthread_key_create(&key[i], destructor) == 0);
    pthread_key_t late;
    CHECK(pthread_key_create(&late, first_in_destructor) == 0);
    for (int round = 0; round < 100; round++) {
        pthread_t t[8];
        for (int i = 0; i < 8; i++)
            t[i] = spawn(i % 4 ? thread : silent, &late);
        for (int i = 0; i < 8; i++)
            join(t[i]);
    }
    CHECK(noisy.words.size() == 20);
    return 0;
}
