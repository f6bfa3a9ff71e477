#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *idle(void *p) { pause(); return p; }
static void *block[40000];
int main(int n, char **v) {
    pthread_t thread;
    if (n > 3) {
        unsigned result = *v[1] == 'k' ? SECCOMP_RET_KILL_PROCESS : *v[1] == 'e' ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW;
        struct sock_filter f[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, atoi(v[2]), 0, 1),
            BPF_STMT(BPF_RET | BPF_K, result),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
        struct sock_fprog p = { 4, f };
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p)) return 1;
        if (!strcmp(v[3], "itself")) execl("/proc/self/exe", "itself", (char *)0);
        else execv(v[3], v + 3);
        return 1;
    }
    pthread_create(&thread, 0, idle, 0);
    for (int i = 0; i < 40000; i++) memset(block[i] = malloc(900), 1, 900);
    for (int i = 0; i < 40000; i++) if (i % 3) free(block[i]);
    for (int i = 0; i < 40000; i++) if (i % 3) memset(block[i] = malloc(500), 1, 500);
    printf("%d\n", getpid());
    fflush(stdout);
    pause();
}
