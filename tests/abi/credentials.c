// A call that changes users, groups, capabilities or namespaces leaves no thread behind that keeps
// the old ones, and is not refused because of a thread that the library has made. Its results are
// the C library's. The library's thread is there before each of these calls, because memory has
// been freed that it is to return later, and it is there again after it.
// flags: -pthread
// env: TOFT_DECAY=3600000
// run: errors
// run: alone
// run: setuid
// run: seteuid
// run: setreuid
// run: setresuid
// run: setgid
// run: setegid
// run: setregid
// run: setresgid
// run: setgroups
// run: capset
// run: namespaces
// run: user-namespace
// run: user-namespace-syscall
// run: clone
// run: debugger
// run: vfork
// timeout: 300
// libc: skip the reclaimer is waited for
// musl: skip setuid and its kind stay the C library's own there
// aarch64: skip qemu has no such lists of threads
// promise: 31
#include "tasks.h"
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

int capset(void *header, const void *sets); /* the C library has it, and no header */

enum { OTHER = 65534 };

static void *sleeper(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static int is_root(void)
{
    return geteuid() == 0;
}

/* The reclaimer that there is, with a second thread of the program where it may have one. */
static void begin(int threads)
{
    if (threads > 1)
        spawn(sleeper, NULL);
    grow_until_reclaimer();
}

/* No thread has other users or groups, also when the reclaimer is back. */
static void changed(void)
{
    CHECK(with_other_ids() == 0);
    CHECK(comes_a_reclaimer(300));
    CHECK(with_other_ids() == 0);
}

static int fails(int result)
{
    return result == -1 ? errno : 0;
}

/* As the C library has it, each with the value that is there already or a bad one. */
static void errors(void)
{
    gid_t many[70000] = {0};
    begin(2);
    CHECK(fails(seteuid((uid_t)-1)) == EINVAL && fails(setegid((gid_t)-1)) == EINVAL);
    CHECK(fails(setuid((uid_t)-1)) == EINVAL && fails(setgid((gid_t)-1)) == EINVAL);
    CHECK(fails(setgroups(70000, many)) == (is_root() ? EINVAL : EPERM));
    CHECK(fails(capset(NULL, NULL)) == EFAULT);
    CHECK(fails(setns(-1, 0)) == EBADF);
    CHECK(fails(unshare(-1)) == EINVAL);
    CHECK(fails((int)syscall(SYS_unshare, -1)) == EINVAL && fails((int)syscall(SYS_setns, -1, 0)) == EBADF);
    errno = 7;
    CHECK(setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1) == 0 && setresgid((gid_t)-1, (gid_t)-1, (gid_t)-1) == 0);
    CHECK(setreuid((uid_t)-1, (uid_t)-1) == 0 && setregid((gid_t)-1, (gid_t)-1) == 0);
    CHECK(unshare(0) == 0);
    CHECK(errno == 7);
    if (is_root()) {
        CHECK(setresuid(OTHER, OTHER, OTHER) == 0);
        CHECK(fails(setuid(0)) == EPERM && fails(seteuid(0)) == EPERM && fails(setreuid(0, 0)) == EPERM);
        CHECK(fails(setgid(1)) == EPERM && fails(setgroups(0, NULL)) == EPERM);
    }
    changed();
}

/* The kernel takes this flag, which changes nothing, only from the one thread of a process. */
static void alone(void)
{
    for (int i = 0; i < 30; i++) {
        begin(1);
        CHECK(syscall(SYS_unshare, CLONE_THREAD) == 0 || errno == EPERM || errno == ENOSYS);
        CHECK(unshare(CLONE_THREAD) == 0 || errno == EPERM || errno == ENOSYS);
    }
}

static void users(const char *how)
{
    gid_t group = 4321;
    begin(2);
    if (!is_root())
        return; /* nothing can be changed */
    if (!strcmp(how, "setuid"))
        CHECK(setuid(OTHER) == 0 && getuid() == OTHER);
    else if (!strcmp(how, "seteuid"))
        CHECK(seteuid(OTHER) == 0 && geteuid() == OTHER && getuid() == 0);
    else if (!strcmp(how, "setreuid"))
        CHECK(setreuid(OTHER, OTHER) == 0 && getuid() == OTHER);
    else if (!strcmp(how, "setresuid"))
        CHECK(setresuid(OTHER, OTHER, OTHER) == 0 && getuid() == OTHER);
    else if (!strcmp(how, "setgid"))
        CHECK(setgid(OTHER) == 0 && getgid() == OTHER);
    else if (!strcmp(how, "setegid"))
        CHECK(setegid(OTHER) == 0 && getegid() == OTHER && getgid() == 0);
    else if (!strcmp(how, "setregid"))
        CHECK(setregid(OTHER, OTHER) == 0 && getgid() == OTHER);
    else if (!strcmp(how, "setresgid"))
        CHECK(setresgid(OTHER, OTHER, OTHER) == 0 && getgid() == OTHER);
    else
        CHECK(setgroups(1, &group) == 0 && getgroups(0, NULL) == 1);
    changed();
}

/* A thread of before would keep what the program gives up; the library's has none of it. */
static void capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    begin(1);
    int before = reclaimer();
    CHECK(capset(&header, none) == 0);
    CHECK(comes_a_reclaimer(300) && reclaimer() != before);
}

/* setns to a mount namespace is refused to a thread that shares its working directory. */
static void namespaces(void)
{
    begin(1);
    if (unshare(CLONE_NEWNS) != 0) {
        CHECK(errno == EPERM || errno == ENOSYS); /* not root, or a container */
        return;
    }
    CHECK(comes_a_reclaimer(300));
    int file = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0 && setns(file, CLONE_NEWNS) == 0);
    CHECK(comes_a_reclaimer(300));
    char own[100] = "", its[100] = "", path[100];
    snprintf(path, sizeof path, "/proc/self/task/%d/ns/mnt", reclaimer());
    CHECK(readlink("/proc/self/ns/mnt", own, sizeof own - 1) > 0);
    CHECK(readlink(path, its, sizeof its - 1) > 0 && !strcmp(own, its));
}

/* The same call of a process that has nothing of the library's, as long as the kernel permits it. */
static int permits_user_namespaces(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(unshare(CLONE_NEWUSER) != 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status) == 0;
}

static void user_namespace(int by_number)
{
    int permits = permits_user_namespaces();
    begin(1);
    int result = by_number ? (int)syscall(SYS_unshare, CLONE_NEWUSER) : unshare(CLONE_NEWUSER);
    CHECK(permits ? result == 0 : result == -1 && errno != EINVAL);
    changed();
}

static int in_clone(void *arg)
{
    (void)arg;
    free(launder(malloc(3000)));
    return 7;
}

/* clone makes a process. The library's thread is no reason to refuse it, and stays. */
static void clones(void)
{
    enum { STACK = 1 << 20 };
    static const int flags[] = {0, CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS};
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    begin(1);
    int before = reclaimer();
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        int status, child = clone(in_clone, stack + STACK, flags[i] | SIGCHLD, NULL);
        if (child < 0) {
            CHECK(errno != EINVAL);
            continue;
        }
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    CHECK(reclaimer() == before);
}

static void attach(int number, const char *status, void *argument)
{
    int state;
    (void)status;
    CHECK(ptrace(PTRACE_SEIZE, number, NULL, 0) == 0);
    CHECK(ptrace(PTRACE_INTERRUPT, number, NULL, NULL) == 0);
    CHECK(waitpid(number, &state, __WALL) == number && WIFSTOPPED(state));
    ++*(int *)argument;
}

/* The new user attaches to each thread, as gdb does. */
static void debugger(void)
{
    begin(2);
    if (!is_root())
        return;
    CHECK(setgroups(0, NULL) == 0 && setresgid(OTHER, OTHER, OTHER) == 0);
    CHECK(setresuid(OTHER, OTHER, OTHER) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0 && comes_a_reclaimer(300));
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int attached = 0;
        CHECK(each_task(parent, attach, &attached) == attached && attached == 3);
        _exit(0);
    }
    reap(child);
}

/* A child that runs in its parent's memory changes its own users, and not its parent's thread. */
static void vfork_child(void)
{
    begin(1);
    int before = reclaimer();
    pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        int done = setresgid((gid_t)-1, (gid_t)-1, (gid_t)-1) | setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1);
        _exit(done | unshare(0));
    }
    reap(child);
    CHECK(reclaimer() == before);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const char *how = argv[1];
    if (!strcmp(how, "errors"))
        errors();
    else if (!strcmp(how, "alone"))
        alone();
    else if (!strcmp(how, "capset"))
        capabilities();
    else if (!strcmp(how, "namespaces"))
        namespaces();
    else if (!strcmp(how, "user-namespace"))
        user_namespace(0);
    else if (!strcmp(how, "user-namespace-syscall"))
        user_namespace(1);
    else if (!strcmp(how, "clone"))
        clones();
    else if (!strcmp(how, "debugger"))
        debugger();
    else if (!strcmp(how, "vfork"))
        vfork_child();
    else
        users(how);
    return 0;
}
