// A child of a child of a child, forty deep, each with its own threads: allocation goes on and
// memory does not pile up.
// flags: -pthread
// timeout: 60
// promise: 23
// aarch64: skip qemu hangs where a process with threads forks
#include "common.h"
#include <stdatomic.h>

/* Bytes that threads have at the moment. Those of a fork's moment are lost to the child, by the program. */
static _Atomic size_t held;

static void *thread(void *arg)
{
    void *p[300];
    for (size_t i = 0; i < 300; i++) {
        CHECK((p[i] = malloc(i * 20)));
        atomic_fetch_add(&held, i * 20);
    }
    for (size_t i = 0; i < 300; i++) {
        atomic_fetch_sub(&held, i * 20);
        free(p[i]);
    }
    return arg;
}

int main(void)
{
    size_t first = 0, lost = 0;
    void *heirloom = malloc(1000);
    for (int generation = 0; generation < 40; generation++) {
        pthread_t t[4];
        for (int i = 0; i < 4; i++)
            t[i] = spawn(thread, NULL);
        pid_t pid = 0;
        if (generation % 2)
            pid = fork(); /* with the threads at work */
        if (pid == 0 && generation % 2 == 0) {
            for (int i = 0; i < 4; i++)
                join(t[i]);
            pid = fork();
        }
        CHECK(pid >= 0);
        if (pid > 0) {
            reap(pid);
            _exit(0);
        }
        lost += atomic_exchange(&held, 0);
        free(heirloom);
        CHECK((heirloom = malloc(1000)));
        if (generation == 8) {
            first = rss_bytes();
            lost = 0;
        }
    }
    /* What is lost is in slabs that others use, too. */
    CHECK(rss_bytes() < first + (8 << 20) + 2 * lost);
    return 0;
}
