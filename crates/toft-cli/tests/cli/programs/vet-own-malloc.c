#include <stddef.h>
#include <string.h>
#include <stdio.h>
static char heap[1 << 22] __attribute__((aligned(16)));
static size_t used;
void *malloc(size_t n) { void *p = heap + used + 16; *(size_t *)(heap + used) = n; used += 16 + (n + 15) / 16 * 16; return p; }
void free(void *p) { (void)p; }
void *calloc(size_t a, size_t b) { return memset(malloc(a * b), 0, a * b); }
void *realloc(void *p, size_t n) { void *q = malloc(n); if (p) { size_t o = ((size_t *)p)[-2]; memcpy(q, p, o < n ? o : n); } return q; }
int main(void) { char *p = malloc(10); puts(p >= heap && p < heap + sizeof heap ? "own" : "other"); free(p); return 0; }
