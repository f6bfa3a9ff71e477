/* A library with dynamic TLS, for which the loader allocates in each thread that touches it. */
#include <stdlib.h>

static __thread char *mine;
static __thread char room[5000];

void *tls_plugin_touch(size_t size)
{
    char *old = mine;
    mine = malloc(size + 1);
    if (!mine)
        abort();
    mine[0] = room[size % sizeof room]++;
    return old;
}

void *tls_plugin_leave(void)
{
    char *old = mine;
    mine = NULL;
    return old;
}
