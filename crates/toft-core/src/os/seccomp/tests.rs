//! Tests of probing with real children of this process, and with filters in separate children.

use super::evidence::{at_least, path_of};
use super::*;

const PAGE: usize = 4096;

/// Runs `test` in a forked child, which may install filters. Returns its exit status, or its signal
/// as a negative number.
fn in_child(test: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child makes only system calls, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(test());
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        if libc::WIFSIGNALED(status) { -libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
    }
}

/// The answer of a filter to one call.
#[derive(Clone, Copy, Debug)]
enum Action {
    KillProcess,
    KillThread,
    Trap,
    Error(i32),
}

/// Installs a filter that allows all calls but one.
fn install(call: i64, action: Action) {
    let verdict = match action {
        Action::KillProcess => libc::SECCOMP_RET_KILL_PROCESS,
        Action::KillThread => libc::SECCOMP_RET_KILL_THREAD,
        Action::Trap => libc::SECCOMP_RET_TRAP,
        Action::Error(code) => libc::SECCOMP_RET_ERRNO | code as u32,
    };
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, verdict),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the kernel reads the program.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}

/// Rows, each with one of its calls.
const OF_ROWS: [(Calls, i64); 18] = [
    (Calls::BARRIER, libc::SYS_membarrier),
    (Calls::SETTLE, libc::SYS_capset),
    (Calls::SETTLE, libc::SYS_sched_setscheduler),
    (Calls::BATCH, libc::SYS_process_madvise),
    (Calls::BATCH, libc::SYS_pidfd_open),
    (Calls::RESIDENT, libc::SYS_mincore),
    (Calls::SWAP, libc::SYS_sysinfo),
    (Calls::FILES, libc::SYS_fstat),
    (Calls::READ, libc::SYS_process_vm_readv),
    (Calls::FAULTS, libc::SYS_userfaultfd),
    (Calls::FAULTS, libc::SYS_ioctl),
    (Calls::STORE, libc::SYS_memfd_create),
    (Calls::STORE, libc::SYS_ftruncate),
    (Calls::LOCK, libc::SYS_mlock2),
    (Calls::KEYS, libc::SYS_pkey_alloc),
    (Calls::KEYS, libc::SYS_pkey_mprotect),
    (Calls::PAGES, libc::SYS_pread64),
    (Calls::USAGE, libc::SYS_getrusage),
];

/// Returns what works without a filter of the test. The tests may run in a container.
fn here() -> Answers {
    probe_by(Way::Clone, PAGE).expect("this process creates children")
}

#[test]
fn all_that_there_is_works_without_a_filter() {
    let all = here();
    let needed = Calls::RECLAIMER.and(Calls::REPORT).and(Calls::WAIT).and(Calls::RESIDENT);
    assert!(all.works.has(needed), "{all:?}");
    assert_eq!(all.safe, Answers::ALL.safe);
    // Every way gives the same answers, with shared memory and with a copy.
    for way in [Way::Clone, Way::Clone3] {
        for shares in [true, false] {
            assert_eq!(child::probe(way, shares, PAGE), Some(all), "{way:?} {shares}");
        }
    }
}

#[test]
fn a_call_that_kills_kills_the_child_alone() {
    let all = here();
    for (row, call) in OF_ROWS {
        for action in [Action::KillProcess, Action::KillThread, Action::Trap] {
            for shares in [true, false] {
                let status = in_child(|| {
                    install(call, action);
                    let Some(found) = child::probe(Way::Clone, shares, PAGE) else { return 1 };
                    let rest = Calls(all.safe.0 & !row.0);
                    i32::from(found.safe != rest) * 2
                });
                assert_eq!(status, 0, "{row:?} {call} {action:?} {shares}");
            }
        }
    }
}

#[test]
fn several_calls_that_kill_take_a_child_each() {
    let status = in_child(|| {
        for (_, call) in OF_ROWS {
            install(call, Action::KillProcess);
        }
        let Some(found) = child::probe(Way::Clone, true, PAGE) else { return 1 };
        let gone = OF_ROWS.iter().fold(Calls::NONE, |all, (row, _)| all.and(*row));
        i32::from(found.safe.0 & gone.0 != 0 || !found.safe.has(Calls::THREAD)) * 2
    });
    assert_eq!(status, 0);
}

#[test]
fn an_error_is_a_refusal_and_a_success_without_effect_a_lie() {
    for (row, call) in OF_ROWS.into_iter().chain([(Calls::DISCARD, libc::SYS_madvise)]) {
        for (code, safe) in [(libc::EPERM, true), (libc::ENOSYS, true), (0, false)] {
            let status = in_child(|| {
                install(call, Action::Error(code));
                let Some(found) = child::probe(Way::Clone, true, PAGE) else { return 1 };
                i32::from(found.safe.has(row) != safe) * 2 + i32::from(found.works.has(row)) * 4
            });
            assert_eq!(status, 0, "{row:?} {call} {code}");
        }
    }
}

#[test]
fn a_child_that_cannot_be_created_says_nothing() {
    for code in [libc::EPERM, libc::ENOSYS, libc::EAGAIN, 0] {
        for way in [Way::Clone, Way::Clone3] {
            let status = in_child(|| {
                install(libc::SYS_clone, Action::Error(code));
                install(libc::SYS_clone3, Action::Error(code));
                i32::from(child::probe(way, true, PAGE).is_some())
            });
            assert_eq!(status, 0, "{code} {way:?}");
        }
    }
    // Containers behave like this: `clone3` is missing, and `clone` is there.
    let status = in_child(|| {
        install(libc::SYS_clone3, Action::Error(libc::ENOSYS));
        i32::from(child::probe(Way::Clone3, true, PAGE).is_none())
    });
    assert_eq!(status, 0);
}

#[test]
fn where_nothing_can_be_collected_nothing_is_known() {
    for action in [Action::KillProcess, Action::Error(libc::EPERM), Action::Error(0)] {
        let status = in_child(|| {
            install(libc::SYS_wait4, action);
            i32::from(child::probe(Way::Clone, true, PAGE) != Some(Answers::default()))
        });
        assert_eq!(status, 0, "{action:?}");
    }
}

#[test]
fn the_process_is_left_as_it_was() {
    static SEEN: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
    extern "C" fn seen(_: i32) {
        SEEN.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    }
    let status = in_child(|| {
        // SAFETY: a handler that counts; system calls.
        unsafe {
            for signal in 1..=31 {
                libc::signal(signal, seen as *const () as usize);
            }
            let mask = || {
                let mut mask = 0u64;
                let args = [0, 0, (&raw mut mask).expose_provenance(), 8, 0, 0];
                crate::os::syscall(libc::SYS_rt_sigprocmask, args);
                mask
            };
            let first = libc::dup(0);
            libc::close(first);
            let before = mask();
            install(libc::SYS_mincore, Action::Trap);
            install(libc::SYS_memfd_create, Action::KillProcess);
            if probe_by(Way::Clone, PAGE).is_none() {
                return 1;
            }
            let last = libc::dup(0);
            libc::close(last);
            let all = libc::waitpid(-1, core::ptr::null_mut(), libc::__WALL | libc::WNOHANG);
            let none = all == -1 && *libc::__errno_location() == libc::ECHILD;
            let mut name = [0u8; 16];
            libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
            let renamed = name.starts_with(b"toft-probe");
            let signals = SEEN.load(core::sync::atomic::Ordering::Relaxed);
            let same = first == last && before == mask() && signals == 0;
            i32::from(!none) * 2 + i32::from(renamed) * 4 + i32::from(!same) * 8
        }
    });
    assert_eq!(status, 0);
}

#[test]
fn paths_and_versions_of_the_kernel() {
    assert_eq!(path_of(1).as_c_str(), c"/proc/1/status");
    assert_eq!(path_of(4194304).as_c_str(), c"/proc/4194304/status");
    for (text, wanted) in [(&b"2.36"[..], true), (b"2.34", true), (b"2.33", false), (b"", false)] {
        assert_eq!(at_least(text, (2, 34)), wanted);
    }
    assert!(at_least(b"6.18.44-x", (5, 16)) && !at_least(b"5.15.0-91", (5, 16)));
}

#[test]
fn without_evidence_no_child_is_created() {
    // The filter kills for every way to create a process. Only a fork before it could be mistaken
    // for evidence.
    let status = in_child(|| {
        for call in [libc::SYS_clone, libc::SYS_clone3] {
            install(call, Action::KillProcess);
        }
        #[cfg(target_arch = "x86_64")]
        for call in [libc::SYS_fork, libc::SYS_vfork] {
            install(call, Action::KillProcess);
        }
        // The parent, which is this test, has fewer filters.
        i32::from(probe(PAGE, false).is_some())
    });
    assert_eq!(status, 0);
}
