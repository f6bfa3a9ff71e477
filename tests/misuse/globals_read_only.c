// After start nothing of the library's own image is writable: not its data, not its bss. But for
// one page of the default build, with the counters that tracers raise, and nothing else:
// `only_semaphores_stay_writable` of image.rs.
// flags: -pthread
// libc: skip it is about the library's mappings
// promise: 2
// musl: skip looks for the mappings of libtoft.so
#include "common.h"
#include <link.h>

static uintptr_t image, image_end, allowed;

/* Whole pages from the first to the last segment of the library, .bss included. */
static int find_image(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "libtoft"))
        return 0;
    image = info->dlpi_addr;
    allowed = strstr(info->dlpi_name, "libtoft-secure") ? 0 : 4096;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
        if (segment->p_type == PT_LOAD && end > image_end)
            image_end = (end + 4095) & ~(uintptr_t)4095;
    }
    return 1;
}

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
    dl_iterate_phdr(find_image, NULL);
    CHECK(image_end > image);
    static char text[1 << 20];
    slurp("/proc/self/maps", text, sizeof text);
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *after;
        uintptr_t from = strtoul(line, &after, 16), to = strtoul(after + 1, &after, 16);
        if (to <= image || from >= image_end)
            continue;
        lines++;
        if (after[2] == 'w' && to - from == allowed)
            allowed = 0;
        else if (after[2] == 'w')
            dprintf(2, "writable: %s\n", line);
    }
    CHECK(lines > 0);
    return 0;
}
