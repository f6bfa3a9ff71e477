/* Allocates 220 MB in small blocks, frees all but each thousandth, and waits until no more is resident than the first argument
 * says, in MiB, or as long as the second says, in seconds. Prints both sizes in KiB. It has a second thread, as servers
 * have, unless there is a third argument. What it must not notice of the library it checks: signals, children, descriptors. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 400000 };
static char *block[BLOCKS];
static volatile sig_atomic_t signals;

static void count(int number)
{
    (void)number;
    signals++;
}

static void *idle(void *argument)
{
    pause();
    return argument;
}

static long resident(void)
{
    char text[100] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0)
        exit(3);
    close(file);
    return atol(strchr(text, ' ')) * (sysconf(_SC_PAGESIZE) / 1024);
}

static int descriptors(void)
{
    int open = 0;
    for (int file = 0; file < 4096; file++)
        open += fcntl(file, F_GETFD) >= 0;
    return open;
}

static int notices(int open)
{
    int wrong = 0;
    if (signals)
        wrong |= 1;
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
        wrong |= 2;
    if (waitpid(-1, NULL, WNOHANG | __WALL) != -1 || errno != ECHILD)
        wrong |= 4;
    if (descriptors() != open)
        wrong |= 8;
    return wrong;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int open = descriptors();
    for (int number = 1; number < 32; number++)
        if (number != SIGKILL && number != SIGSTOP && number != SIGSEGV && number != SIGABRT)
            signal(number, count);
    if (argc < 4 && pthread_create(&thread, NULL, idle, NULL))
        return 3;
    long wanted = argc > 1 ? atol(argv[1]) * 1024 : 0, tenths = argc > 2 ? atol(argv[2]) * 10 : 0;
    for (int i = 0; i < BLOCKS; i++) {
        size_t bytes = 100 + i % 1000;
        if (!(block[i] = malloc(bytes)))
            return 3;
        memset(block[i], i, bytes);
    }
    long full = resident();
    for (int i = 0; i < BLOCKS; i++)
        if (i % 1000)
            free(block[i]);
    long left = resident();
    for (long i = 0; i < tenths && left > wanted; i++) {
        usleep(100000);
        left = resident();
    }
    int wrong = notices(open);
    printf("%ld %ld %d\n", full, left, wrong);
    for (int i = 0; i < BLOCKS; i += 1000)
        for (size_t k = 0; k < 100 + (size_t)i % 1000; k++)
            if (block[i][k] != (char)i)
                return 2;
    return wrong ? 4 : left > wanted;
}
