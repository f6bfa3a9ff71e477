// A hundred fresh processes, and a thousand where there is time: each has another random layout,
// allocates in many classes and from many sites, crosses steps of growth, frees all and ends. What
// goes wrong in one layout of a thousand goes wrong here.
// flags: -pthread
// timeout: 60
// promise: 6 19
#include "sites.h"

enum { N = 3000 };

static int one_process(void)
{
    static void *block[SITES][N];
    for (int s = 0; s < SITES; s++) {
        site_function = s % 6;
        int n = s ? 60 : N;
        for (int i = 0; i < n; i++)
            block[s][i] = site[s](s ? (size_t)1 << (i % 18) : 4000);
    }
    for (int s = 0; s < SITES; s++)
        for (int i = 0; i < N; i++)
            free(block[s][i]);
    return 0;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return one_process();
    double end = now() + 8;
    int processes = 0;
    for (; processes <= 100 || (processes < 1000 && now() < end); processes++) {
        char text[1000];
        int status = run_again("once", 2, text, sizeof text);
        if (status != 0)
            dprintf(2, "process %d: status %#x: %s\n", processes, (unsigned)status, text);
        CHECK(status == 0);
    }
    announce_number("processes", (size_t)processes);
    return 0;
}
