/* Files of hints about the call sites of many_sites.h, in this program and under this name, whose build-id the
 * linker was told: -Wl,--build-id=0x0badc0de01234567. */
#include "many_sites.h"

#define BUILD_ID "0badc0de01234567"

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* Where the call of the n-th site returns to: behind a subtraction of 4 bytes and a call of 5. */
HELPER size_t site_offset(int n)
{
    return (size_t)(many_sites + n * SITE_BYTES + 9 - __ehdr_start);
}

static char hints_name[64];
static int hints_file = -1;

HELPER void hint(const char *format, ...)
{
    char line[300];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    CHECK(n > 0 && (size_t)n < sizeof line && write(hints_file, line, (size_t)n) == n);
}

/* A new file, which children find by TOFT_HINTS. */
HELPER void begin_hints(void)
{
    snprintf(hints_name, sizeof hints_name, "/tmp/toft-hints.%d", getpid());
    hints_file = open(hints_name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(hints_file >= 0);
    setenv("TOFT_HINTS", hints_name, 1);
}

/* Runs this program again, with what it said on standard error in `text`; the file goes. */
HELPER int run_hinted(const char *argument, char *text, size_t size)
{
    if (hints_file >= 0)
        close(hints_file);
    hints_file = -1;
    int status = run_again(argument, 2, text, size);
    unlink(hints_name);
    return status;
}

/* The partition of a block that is given back here, twice: the warning names it. For TOFT_ON_MISUSE=warn. */
HELPER long partition_of(void *p)
{
    int ends[2], saved = dup(2);
    CHECK(saved >= 0 && pipe(ends) == 0 && dup2(ends[1], 2) == 2);
    free(p);
    free(launder(p));
    CHECK(dup2(saved, 2) == 2);
    close(saved);
    close(ends[1]);
    char text[4096];
    ssize_t n = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    CHECK(n > 0);
    text[n] = 0;
    char *at = strstr(text, "partition ");
    CHECK(at);
    return atol(at + 10);
}

/* The partition of the n-th site's blocks. */
HELPER long partition_of_site(int n)
{
    return partition_of(at_site(n, 64));
}
