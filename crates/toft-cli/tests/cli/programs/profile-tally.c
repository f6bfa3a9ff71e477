#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define PLACES (1u << 24)
static uintptr_t *table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char early[1 << 16];
static size_t early_used;
static void *(*next_malloc)(size_t), *(*next_realloc)(void *, size_t), *(*next_memalign)(size_t, size_t);
static void (*next_free)(void *);
static size_t (*next_usable)(void *);
static int starting;
static size_t ever_blocks, ever_bytes;
static int is_early(void *p) { return (char *)p >= early && (char *)p < early + sizeof early; }
static int start(void) {
    if (next_free) return 1;
    if (starting) return 0;
    starting = 1;
    table = mmap(0, PLACES * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    next_malloc = dlsym(RTLD_NEXT, "malloc"); next_realloc = dlsym(RTLD_NEXT, "realloc");
    next_memalign = dlsym(RTLD_NEXT, "memalign"); next_usable = dlsym(RTLD_NEXT, "malloc_usable_size");
    next_free = dlsym(RTLD_NEXT, "free");
    return 1;
}
static unsigned place(uintptr_t p) { return (p * 0x9e3779b97f4a7c15u) >> 40; }
static void *had(void *p, size_t before) {
    if (!p) return p;
    size_t bytes = next_usable(p);
    pthread_mutex_lock(&lock);
    /* A block of no bytes is in no figure. */
    if (before == 0 && bytes) ever_blocks++;
    if (bytes > before) ever_bytes += bytes - before;
    unsigned i = place((uintptr_t)p);
    while (table[i] > 1) i = (i + 1) % PLACES;
    table[i] = (uintptr_t)p;
    pthread_mutex_unlock(&lock);
    return p;
}
static void gone(void *p) {
    pthread_mutex_lock(&lock);
    for (unsigned i = place((uintptr_t)p); table[i]; i = (i + 1) % PLACES)
        if (table[i] == (uintptr_t)p) { table[i] = 1; break; }
    pthread_mutex_unlock(&lock);
}
void *malloc(size_t n) {
    if (start()) return had(next_malloc(n), 0);
    void *p = early + early_used;
    early_used += (n + 31) / 16 * 16;
    return p;
}
void *calloc(size_t a, size_t b) {
    size_t n;
    if (__builtin_mul_overflow(a, b, &n)) { errno = ENOMEM; return NULL; }
    void *p = malloc(n);
    return p ? memset(p, 0, n) : p;
}
void free(void *p) {
    if (!p || is_early(p) || !start()) return;
    gone(p);
    int e = errno;
    next_free(p);
    errno = e;
}
void *realloc(void *p, size_t n) {
    if (!p) return malloc(n);
    if (is_early(p)) return memcpy(malloc(n), p, n);
    start();
    size_t before = next_usable(p);
    gone(p);
    void *q = next_realloc(p, n);
    if (!q && n) had(p, before);
    return had(q, q == p ? before : 0);
}
void *reallocarray(void *p, size_t a, size_t b) {
    size_t n;
    if (__builtin_mul_overflow(a, b, &n)) { errno = ENOMEM; return NULL; }
    return realloc(p, n);
}
void *memalign(size_t a, size_t n) { start(); return had(next_memalign(a, n), 0); }
void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
void *valloc(size_t n) { return memalign(4096, n); }
int posix_memalign(void **out, size_t a, size_t n) {
    void *p = memalign(a, n);
    if (!p) return ENOMEM;
    *out = p;
    return 0;
}
void *_Znwm(size_t n) { return malloc(n ? n : 1); }
void *_Znam(size_t n) { return malloc(n ? n : 1); }
void _ZdlPv(void *p) { free(p); }
void _ZdaPv(void *p) { free(p); }
void _ZdlPvm(void *p, size_t n) { (void)n; free(p); }
void _ZdaPvm(void *p, size_t n) { (void)n; free(p); }
__attribute__((destructor)) static void ended(void) {
    if (!start()) return;
    size_t bytes = 0, blocks = 0;
    for (unsigned i = 0; i < PLACES; i++)
        if (table[i] > 1) { size_t n = next_usable((void *)table[i]); bytes += n; blocks += n != 0; }
    char line[300];
    snprintf(line, sizeof line, "%s.%d", getenv("TALLY"), getpid());
    int file = open(line, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int n = snprintf(line, sizeof line, "%zu %zu %zu %zu", bytes, blocks, ever_bytes, ever_blocks);
    if (write(file, line, n) != n) _exit(99);
    close(file);
}
