//! What the tests of reports in Rust programs run: allocates, and ends as its word says.
//!
//! ```text
//! reports nothing | leak | keep | twice | once | overflow | size | stale | exit | abort | filter
//!     | thread
//! ```

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: toft::Toft = toft::Toft;

const LAYOUT: Layout = Layout::new::<[u8; 100]>();

fn allocate() -> *mut u8 {
    // SAFETY: of 100 bytes.
    black_box(unsafe { ALLOCATOR.alloc(LAYOUT) })
}

/// Frees a block, and again if `again` is set.
#[inline(never)]
fn inner(block: *mut u8, again: bool) {
    // SAFETY: allocated with this layout. The second call is the misuse that is to be reported.
    unsafe {
        ALLOCATOR.dealloc(block, LAYOUT);
        if again {
            ALLOCATOR.dealloc(block, LAYOUT);
        }
    }
    black_box(());
}

#[inline(never)]
fn outer(block: *mut u8, again: bool) {
    inner(block, again);
    black_box(());
}

#[inline(never)]
fn lose() {
    std::mem::forget(black_box(vec![1u8; 1000]));
}

#[inline(never)]
fn read_names() -> Vec<String> {
    (0..1000).map(|number| format!("{number:300}")).collect()
}

#[inline(never)]
fn read_lines() -> Vec<Vec<u8>> {
    (0..1000).map(|number| vec![number as u8; 300]).collect()
}

/// Installs a filter that ends the process at calls that no malloc needs, unannounced: an open
/// file, and a read of this process's memory by the kernel.
fn forbid() {
    const NUMBER: u32 = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let step = |code: u32, jt: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, NUMBER),
        step(equals, 2, libc::SYS_openat as u32),
        step(equals, 1, libc::SYS_process_vm_readv as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the kernel copies the program during the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, 0, 0), 0);
    }
}

/// Reads a file of each thread of this process, those included that libc does not know.
fn of_each_thread(file: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks.filter_map(|task| std::fs::read_to_string(task.path().join(file)).ok()).collect()
}

fn has_reclaimer() -> bool {
    of_each_thread("comm").iter().any(|name| name == "toft-reclaimer\n")
}

/// Allocates and frees until the library's thread is there.
fn grow_until_reclaimer() {
    while !has_reclaimer() {
        drop(black_box(vec![vec![1u8; 2000]; 16_000]));
    }
}

/// Makes a call that changes nothing, and that the kernel refuses by `EINVAL` to a process with a
/// second thread. Returns the error, or 0.
fn call_alone() -> i32 {
    // SAFETY: a system call.
    match unsafe { libc::unshare(libc::CLONE_THREAD) } {
        0 => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap(),
    }
}

/// Returns the users and groups of each thread.
fn ids() -> Vec<Vec<String>> {
    let ids = |status: String| {
        let lines =
            status.lines().filter(|line| line.starts_with("Uid:") || line.starts_with("Gid:"));
        lines.map(String::from).collect()
    };
    of_each_thread("status").into_iter().map(ids).collect()
}

/// Checks that the library's thread is gone during a call that must be made without it, that it
/// comes back with what the call has changed, and that it comes back after a panic.
fn without_thread() {
    const OTHER: u32 = 65534;
    toft::watch_filters();
    grow_until_reclaimer();
    match call_alone() {
        libc::EINVAL => assert_eq!(toft::without_thread(call_alone), 0),
        // In a container.
        error => assert!([libc::EPERM, libc::ENOSYS].contains(&error)),
    }
    grow_until_reclaimer();
    toft::without_thread(|| {
        toft::without_thread(|| assert!(!has_reclaimer()));
        assert!(!has_reclaimer());
    });
    grow_until_reclaimer();
    let panics = || toft::without_thread(|| std::panic::resume_unwind(Box::new(())));
    std::panic::catch_unwind(panics).unwrap_err();
    grow_until_reclaimer();
    // libc changes this thread, too.
    std::thread::spawn(|| std::thread::sleep(std::time::Duration::MAX));
    // SAFETY: system calls.
    let changed = || unsafe {
        libc::setresgid(OTHER, OTHER, OTHER) == 0 && libc::setresuid(OTHER, OTHER, OTHER) == 0
    };
    // SAFETY: a system call.
    let is_root = unsafe { libc::geteuid() } == 0;
    assert_eq!(toft::without_thread(changed), is_root);
    for _ in 0..2 {
        let ids = ids();
        assert!(ids.len() > 1 && ids.iter().all(|of| *of == ids[0]), "{ids:?}");
        grow_until_reclaimer();
    }
}

/// Overwrites what calls have left on the stack: it may have the address of a block.
#[inline(never)]
fn overwrite_frames() {
    black_box([0u8; 64 << 10]);
    // What registers have goes, too.
    drop(black_box(vec![1u8; 1000]));
}

fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    let kept: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    match word.as_str() {
        "leak" => {
            (0..4).for_each(|_| lose());
            overwrite_frames();
        }
        "keep" => std::mem::forget(black_box((read_names(), read_lines()))),
        "twice" | "once" => outer(allocate(), word == "twice"),
        "overflow" => {
            let block = allocate();
            // SAFETY: the misuse: one byte more than the block has. It changes, whatever it was: a
            // canary may have any value but zero.
            unsafe { block.add(100).write_volatile(!block.add(100).read_volatile()) };
            inner(block, false);
        }
        // SAFETY: the misuse: one byte less than was requested.
        "size" => unsafe { ALLOCATOR.dealloc(allocate(), Layout::new::<[u8; 99]>()) },
        "stale" => {
            let block = allocate();
            inner(block, false);
            // SAFETY: the misuse: the block is free.
            unsafe { block.add(50).write_volatile(1) };
            // Until it leaves the quarantine.
            (0..20_000).for_each(|_| inner(allocate(), false));
        }
        "filter" => {
            forbid();
            let lines: Vec<String> = (0..100).map(|number| format!("{number:1000}")).collect();
            black_box(lines);
        }
        "thread" => without_thread(),
        "exit" => std::process::exit(3),
        "abort" => std::process::abort(),
        _ => {}
    }
    // Other threads are no reason to be silent, or to speak twice.
    std::thread::spawn(move || drop(black_box(kept))).join().unwrap();
}
