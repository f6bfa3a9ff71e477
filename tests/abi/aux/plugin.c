/* A library that allocates in its constructor, in a call and in its destructor, and frees what its
 * host allocated. */
#include <stdlib.h>
#include <string.h>

static char *early;

__attribute__((constructor)) static void born(void)
{
    early = malloc(300);
    if (!early)
        abort();
    memset(early, 7, 300);
}

__attribute__((destructor)) static void gone(void)
{
    char *late = malloc(500);
    if (!late || early[299] != 7)
        abort();
    free(late);
    free(early);
}

void *plugin_swap(void *from_host)
{
    free(from_host);
    return calloc(3, 100);
}
