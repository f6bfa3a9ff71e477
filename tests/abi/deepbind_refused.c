// The kernel does not let libc's table of symbols be changed: libraries are opened without the
// flag, which is said once.
// flags: -rdynamic
// aux: deep.c
// libs: -ldl
// stderr: toft: RTLD_DEEPBIND: libc's malloc cannot be replaced for such libraries; going on without it
// libc: skip it has no reason to say anything
#include <stdbool.h>
#include "deepbind.h"
#include "filter.h"

int main(void)
{
    /* Whatever lies near libc may not be made writable any more. */
    uint32_t near = (uint32_t)((uintptr_t)dlsym(RTLD_NEXT, "getpid") >> 32);
    struct sock_filter instructions[] = {
        LOAD_NUMBER,
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, near, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    INSTALL(instructions);
    for (int i = 0; i < 3; i++) {
        void *library = opened("deep", RTLD_NOW | RTLD_DEEPBIND);
        cross(library, false);
        CHECK(dlclose(library) == 0);
    }
    return 0;
}
