/* What the programs of the corpus share. Each is one misuse:
 *
 *     prepare()   what comes before, all of it allowed.
 *     fault()     the misuse, and the call that ought to name it.
 *     correct()   what a program without the fault does in its place.
 *     outcome()   PREVENTED when the fault had no effect that the program can see, else MISSED.
 *
 * `program fault|correct same|cross SIZE VARIANT` runs them. `cross` does the middle part in
 * another thread; a program that defines OWN_THREADS does it as it likes. The lines `begin` and
 * `end` on standard output tell the runner when the program died. The same file is C and C++:
 * `take` and `give` are malloc and free, or new and delete. */
#ifndef TOFT_MISUSE_CORPUS_H
#define TOFT_MISUSE_CORPUS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __cplusplus
#include <new>
#endif

/* A program need not use all of them, and a call must be where it is written. */
#define HELPER __attribute__((unused, noinline)) static
/* Keeps a call from becoming a jump, so that the call site is in the caller. */
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

enum verdict { PREVENTED = 80, MISSED = 81, NO_SUCH_CALL = 82, BROKEN = 83 };

static void prepare(void);
static void fault(void);
static void correct(void);
static enum verdict outcome(void);

static size_t size;
static const char *variant;
static int cross;
static const char *call; /* the one that ought to name the misuse */

HELPER void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(BROKEN);
}

__attribute__((noreturn)) HELPER void broken(const char *what)
{
    say("broken=");
    say(what);
    say("\n");
    _exit(BROKEN);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            broken(#condition);                                                                    \
    } while (0)

/* The values that an expected message may name. */
HELPER void announce(const char *name, const volatile void *p)
{
    char text[100];
    snprintf(text, sizeof text, "%s=%p\n", name, (void *)p);
    say(text);
}

HELPER void announce_number(const char *name, size_t n)
{
    char text[100];
    snprintf(text, sizeof text, "%s=%zu\n", name, n);
    say(text);
}

HELPER void announce_block(void *p)
{
    announce("p", p);
    announce_number("size", malloc_usable_size(p));
}

/* The compiler knows nothing about what comes out. */
HELPER void *launder(const volatile void *p)
{
    void *q = (void *)p;
    __asm__ volatile("" : "+r"(q)::"memory");
    return q;
}

HELPER int is(const char *word)
{
    return strcmp(variant, word) == 0;
}

#ifdef __cplusplus
#define CALL "operator delete"
#define ALLOCATE(n) ::operator new(n)
#define RELEASE(p) ::operator delete(p)
#else
#define CALL "free"
#define ALLOCATE(n) malloc(n)
#define RELEASE(p) free(p)
#endif

/* One call site, for all blocks that ought to be alike. */
HELPER unsigned char *take(size_t n)
{
    unsigned char *p = (unsigned char *)launder(ALLOCATE(n));
    CHECK(p);
    NO_TAIL_CALL();
    return p;
}

HELPER void give(void *p)
{
    RELEASE(launder(p));
    NO_TAIL_CALL();
}

HELPER void *in_thread(void *action)
{
    ((void (*)(void))action)();
    return NULL;
}

/* Runs `action` in a new thread, to its end. */
HELPER void elsewhere(void (*action)(void))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, (void *)action) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* Content that tells which block it belongs to; no word of it is 0. */
static unsigned char content(size_t tag, size_t at)
{
    return (unsigned char)(1 + (tag * 31 + at * 7 + (at >> 8)) % 255);
}

HELPER void fill(unsigned char *p, size_t n, size_t tag)
{
    for (size_t i = 0; i < n; i++)
        p[i] = content(tag, i);
}

HELPER int filled(const unsigned char *p, size_t n, size_t tag)
{
    for (size_t i = 0; i < n; i++)
        if (((const volatile unsigned char *)p)[i] != content(tag, i))
            return 0;
    return 1;
}

/* Whether some word of it is as it was filled. */
HELPER int left_over(const unsigned char *p, size_t n, size_t tag)
{
    for (size_t i = 0; i + 8 <= n; i += 8) {
        unsigned old = 0;
        for (size_t k = i; k < i + 8; k++)
            old += ((const volatile unsigned char *)p)[k] == content(tag, k);
        if (old == 8)
            return 1;
    }
    return 0;
}

HELPER int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* As many blocks of a size as a small part of memory holds, `most` at most. */
static size_t as_many(size_t n, size_t most)
{
    size_t fit = ((size_t)24 << 20) / (n ? n : 1);
    return fit < 24 ? 24 : fit < most ? fit : most;
}

/* Whether no block that is handed out from here on overlaps another one, or the `length` bytes at
 * `live`, which are in use. Also blocks of 100 bytes, which crafted contents pretend to be. */
HELPER int handed_out_once(const void *live, size_t length)
{
    enum { MOST = 20000 };
    static uintptr_t block[MOST];
    const size_t sizes[2] = {size, 100};
    uintptr_t from = (uintptr_t)live;
    for (int kind = 0; kind < 2; kind++) {
        size_t n = sizes[kind], count = as_many(n, MOST);
        for (size_t i = 0; i < count; i++) {
            block[i] = (uintptr_t)malloc(n);
            CHECK(block[i]);
            if (block[i] < from + length && from < block[i] + n)
                return 0;
        }
        qsort(block, count, sizeof block[0], by_address);
        for (size_t i = 1; i < count; i++)
            if (block[i - 1] + n > block[i])
                return 0;
        for (size_t i = 0; i < count; i++)
            free((void *)block[i]);
    }
    return 1;
}

/* What a bad call that came back has left behind. */
HELPER enum verdict of_the_heap(const void *live, size_t length)
{
    return handed_out_once(live, length) ? PREVENTED : MISSED;
}

enum reuse { NEVER, AGAIN, TWICE };

/* Whether `p` is handed out again, or two blocks overlap. There are enough calls that no quarantine
 * holds `p` any more. The last round takes more blocks than ever before, so none stays free. */
HELPER enum reuse comes_back(const void *p)
{
    enum { MOST = 20000, ROUNDS = 48 };
    static void *block[MOST];
    for (int round = 0; round <= ROUNDS; round++) {
        size_t count = as_many(size, round < ROUNDS ? 4000 : MOST);
        enum reuse reuse = NEVER;
        for (size_t i = 0; i < count; i++) {
            block[i] = take(size);
            if (block[i] == p)
                reuse = AGAIN;
        }
        qsort(block, count, sizeof block[0], by_address);
        for (size_t i = 1; i < count; i++)
            if ((uintptr_t)block[i - 1] + size > (uintptr_t)block[i])
                return TWICE;
        if (reuse == AGAIN)
            return reuse;
        for (size_t i = 0; i < count; i++)
            give(block[i]);
    }
    return NEVER;
}

/* A row of blocks with contents, and in it two that lie next to each other as nearly as any. */
enum { ROW = 512 };
static unsigned char *row[ROW];
static size_t in_row, usable_in_row[ROW];
static size_t low; /* row[low] lies before row[low + 1] */

HELPER void take_row(void)
{
    in_row = as_many(size, ROW);
    for (size_t i = 0; i < in_row; i++)
        row[i] = take(size);
    qsort(row, in_row, sizeof row[0], by_address);
    for (size_t i = 0; i < in_row; i++) {
        fill(row[i], size, i);
        usable_in_row[i] = malloc_usable_size(row[i]);
        size_t gap = i ? (size_t)(row[i] - row[i - 1]) : 0;
        if (i == 1 || (i > 1 && gap < (size_t)(row[low + 1] - row[low])))
            low = i - 1;
    }
}

/* After `given` was freed: whether the others are as they were. Then all go. */
HELPER enum verdict of_the_row(const unsigned char *given)
{
    int whole = 1;
    for (size_t i = 0; i < in_row; i++)
        if (row[i] != given)
            whole &= filled(row[i], size, i) && malloc_usable_size(row[i]) == usable_in_row[i];
    for (size_t i = 0; i < in_row; i++)
        if (row[i] != given)
            give(row[i]);
    return handed_out_once(NULL, 0) && whole ? PREVENTED : MISSED;
}

int main(int argc, char **argv)
{
    /* Most of these programs die, and their core files are of no use. */
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    CHECK(argc == 5);
    int twin = strcmp(argv[1], "correct") == 0;
    size = strtoul(argv[3], NULL, 10);
    variant = argv[4];
    cross = strcmp(argv[2], "cross") == 0;
    call = CALL;
    prepare();
    say("call=");
    say(call);
    say("\nbegin\n");
    void (*action)(void) = twin ? correct : fault;
#ifndef OWN_THREADS
    if (cross)
        elsewhere(action);
    else
        action();
#else
    action();
#endif
    say("end\n");
    enum verdict verdict = outcome();
    return twin ? 0 : verdict;
}

#endif
