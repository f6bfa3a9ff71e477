/* A library that names a symbol which its host has as well, and frees what the host allocated, by all names. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static char *early;

__attribute__((constructor)) static void born(void)
{
    early = strdup("early");
}

__attribute__((destructor)) static void gone(void)
{
    free(early);
}

int which(void)
{
    return 2;
}

/* Through the table of symbols: the host's, or with RTLD_DEEPBIND its own. */
int deep_which(void)
{
    return which();
}

void *deep_malloc(void)
{
    return (void *)malloc;
}

char *deep_take_early(void)
{
    char *taken = early;
    early = NULL;
    return taken;
}

/* Frees `ours`, resizes `theirs`, and gives back a block of each kind. */
int deep_swap(void *ours, char **theirs, void *blocks[8])
{
    free(ours);
    if (malloc_usable_size(*theirs) < 6)
        return 1;
    *theirs = realloc(*theirs, 70000);
    blocks[0] = malloc(100);
    blocks[1] = calloc(10, 10);
    blocks[2] = reallocarray(NULL, 10, 10);
    blocks[3] = aligned_alloc(64, 128);
    blocks[4] = memalign(256, 100);
    blocks[5] = valloc(100);
    blocks[6] = strdup("a string that libc itself allocates");
    return posix_memalign(&blocks[7], 4096, 5000);
}
