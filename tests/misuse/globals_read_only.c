// After start nothing of the library's own image is writable: not its data, not its bss.
// flags: -pthread
// libc: skip it is about the library's mappings
// promise: 2
#include "common.h"

static void *thread(void *arg)
{
    free(malloc(100000));
    return arg;
}

int main(void)
{
    for (int i = 0; i < 4; i++)
        join(spawn(thread, NULL));
    free(malloc(1 << 20));
    static char text[1 << 20];
    slurp("/proc/self/maps", text, sizeof text);
    uintptr_t image_end = 0;
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *after;
        uintptr_t from = strtoul(line, &after, 16), to = strtoul(after + 1, &after, 16);
        int writable = after[2] == 'w', named = strstr(line, "libtoft") != NULL;
        int anonymous = strchr(line, '/') == NULL && strchr(line, '[') == NULL;
        lines += named;
        /* The end of .bss is an anonymous mapping right behind the file's last. */
        if (writable && (named || (anonymous && image_end == from)))
            dprintf(2, "writable: %s\n", line);
        image_end = named || (anonymous && image_end == from) ? to : 0;
    }
    CHECK(lines > 0);
    return 0;
}
