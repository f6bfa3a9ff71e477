// Where the system does not allow userfaultfd, TOFT_GUARDED=uninit says so once: what was not
// written can be read, from several threads, and no thread waits.
// flags: -pthread
// stderr: toft: TOFT_GUARDED=uninit: the system does not allow userfaultfd with the kernel's accesses; no read is reported
// libc: skip it has no such option
#include "filter.h"

#ifndef SYS_userfaultfd
#define SYS_userfaultfd 323
#endif

enum { NEW_DESCRIPTOR = 0xAA00 };

static void *reader(void *arg)
{
    for (size_t i = 1; i < 300; i++) {
        volatile char *p = launder(malloc(i * 100));
        CHECK(p);
        p[i] += p[i * 2];
        free((void *)p);
    }
    return arg;
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        pthread_t thread = spawn(reader, NULL);
        reader(NULL);
        join(thread);
        return 0;
    }
    struct sock_filter refuse[] = {
        LOAD_NUMBER,
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NEW_DESCRIPTOR, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    INSTALL(refuse);
    CHECK(setenv("TOFT_GUARDED", "uninit", 1) == 0);
    execl("/proc/self/exe", argv[0], "inner", (char *)NULL);
    CHECK(!"execl");
}
