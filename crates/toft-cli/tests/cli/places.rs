//! Where `toft run` puts the library: programs of every user can load it, and only its owner can
//! write it.
//!
//! These start programs of other users and mount file systems in a separate mount namespace, which
//! takes root; without the right to do that they are left out.

use std::process::{Command, Output};

use crate::common::*;

/// Whether namespaces of mounts can be made here.
fn can_mount() -> bool {
    let tried = Command::new("unshare")
        .args(["-m", "sh", "-c", "mount -t tmpfs tmpfs /mnt"])
        .stderr(std::process::Stdio::null())
        .status();
    let can = tried.is_ok_and(|status| status.success());
    if !can {
        eprintln!("left out: no namespace of mounts can be made here");
    }
    can
}

/// Runs a script of the shell where `$TOFT` is the command, with separate file systems for
/// everything that may hold the library, and a home that only root can enter.
fn alone(script: &str) -> Output {
    // The command itself where every user can execute it, wherever the build lies.
    let mounts = "set -e; mount -t tmpfs tmpfs /mnt; touch /mnt/toft; mount --bind $BUILT /mnt/toft; TOFT=/mnt/toft; \
                  for place in /var/cache /tmp /dev/shm /root; do mount -t tmpfs -o mode=1777 tmpfs $place; done; \
                  chmod 755 /var/cache /mnt; chmod 700 /root; ";
    Command::new("unshare")
        .args(["-m", "sh", "-c", &format!("{mounts}{script}")])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("HOME", "/root")
        .env("BUILT", env!("CARGO_BIN_EXE_toft"))
        .output()
        .unwrap()
}

/// What another user's shell says: its number, and the libraries of Toft that a program it starts
/// has mapped.
const AS_NOBODY: &str =
    "su -s /bin/sh nobody -c 'id -u; grep -o /.*libtoft.* /proc/self/maps | sort -u'";

#[track_caller]
fn assert_no_process_has(output: &Output, folder: &str) {
    assert_eq!((output.status.code(), stderr(output).as_str()), (Some(0), ""));
    let text = stdout(output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "65534"), "{text}");
    assert!(lines[1].starts_with(&format!("{folder}/libtoft-")), "{text}");
}

#[test]
fn programs_of_other_users_run_on_it() {
    if !can_mount() {
        return;
    }
    let run = format!("$TOFT run --children --strict -- {AS_NOBODY}");
    assert_no_process_has(&alone(&run), "/var/cache/toft");
    // With a umask that closes everything, and after a version that has left a closed folder.
    assert_no_process_has(&alone(&format!("umask 077; {run}")), "/var/cache/toft");
    let closed = "mkdir -m 700 /var/cache/toft; ";
    assert_no_process_has(&alone(&format!("{closed}{run}")), "/var/cache/toft");
    // The words of the issue.
    let output = alone("$TOFT run --children -- su -s /bin/sh nobody -c id");
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert!(stdout(&output).starts_with("uid=65534(nobody)"));
    // The program alone has it, and its owner alone can write it.
    let modes = "$TOFT run --strict true; stat -c '%a %u' /var/cache/toft /var/cache/toft/*";
    assert_eq!(stdout(&alone(modes)), "755 0\n644 0\n");
}

#[test]
fn another_place_is_taken_if_one_does_not_serve() {
    if !can_mount() {
        return;
    }
    let run = format!("$TOFT run --children --strict -- {AS_NOBODY}");
    let without = |prepare: &str| alone(&format!("{prepare}; {run}"));
    let noexec = |place: &str| format!("mount -t tmpfs -o noexec,mode=1777 tmpfs {place}");
    let read_only = |place: &str| format!("mount -o remount,ro {place}");
    let system = format!("{} && chmod 755 /var/cache", noexec("/var/cache"));
    assert_no_process_has(&without(&system), "/tmp/toft-0");
    assert_no_process_has(&without(&read_only("/var/cache")), "/tmp/toft-0");
    let both = format!("{}; {}", read_only("/var/cache"), noexec("/tmp"));
    assert_no_process_has(&without(&both), "/dev/shm/toft-0");
    assert_no_process_has(
        &without(&format!(
            "{}; mkdir -m 755 /tmp/own; export TMPDIR=/tmp/own",
            read_only("/var/cache")
        )),
        "/tmp/own/toft-0",
    );
    // What is there already serves on a file system that is read-only.
    let before = format!("$TOFT run true; {}", read_only("/var/cache"));
    assert_no_process_has(&without(&before), "/var/cache/toft");
}

#[test]
fn folders_that_others_have_prepared_are_not_used() {
    if !can_mount() {
        return;
    }
    let run = format!("$TOFT run --children --strict -- {AS_NOBODY}");
    for prepare in [
        "mkdir -m 755 /tmp/toft-0; chown nobody /tmp/toft-0",
        "mkdir -m 777 /tmp/toft-0",
        "mkdir -m 770 /tmp/toft-0",
        "mkdir -m 755 /tmp/other; ln -s /tmp/other /tmp/toft-0",
        "ln -s /nonexistent /tmp/toft-0",
        "touch /tmp/toft-0",
        "mkfifo /tmp/toft-0",
        // A folder of root's, in one of another user's, who could rename it.
        "mkdir /tmp/theirs /tmp/theirs/t; chown nobody /tmp/theirs; export TMPDIR=/tmp/theirs/t; mkdir -m 777 /tmp/toft-0",
    ] {
        let output = alone(&format!("mount -o remount,ro /var/cache; {prepare}; {run}"));
        assert_no_process_has(&output, "/dev/shm/toft-0");
    }
}

#[test]
fn without_a_place_for_all_users_the_program_runs_with_a_message() {
    if !can_mount() {
        return;
    }
    let none = "for place in /var/cache /tmp /dev/shm; do mount -o remount,ro $place; done; ";
    // In root's own home, and then in memory.
    for more in ["", "mount -o remount,ro /root; "] {
        let output = ends_with(
            7,
            alone(&format!("{none}{more}$TOFT run --children --strict -- sh -c 'exit 7'")),
        );
        let line = message(&output);
        assert!(line.starts_with("toft: programs of other users will not run on Toft"), "{line}");
        let alone = alone(&format!("{none}{more}$TOFT run --strict -- cat /proc/self/maps"));
        assert_clean(&alone);
        assert!(stdout(&alone).contains("libtoft"), "{}", stdout(&alone));
    }
}

/// Other users have their own caches.
#[test]
fn users_without_rights_have_it_too() {
    if !can_mount() {
        return;
    }
    let script = "mkdir -m 700 /tmp/home; chown nobody /tmp/home; \
                  su -s /bin/sh nobody -c \"HOME=/tmp/home $TOFT run --children --strict -- grep -o /.*libtoft.* /proc/self/maps\"; \
                  su -s /bin/sh nobody -c \"HOME=/none $TOFT run --children --strict -- grep -o /.*libtoft.* /proc/self/maps\"";
    let output = alone(script);
    assert_eq!(stderr(&output), "");
    let text = stdout(&output);
    assert!(text.contains("/tmp/home/.cache/toft/libtoft-"), "{text}");
    assert!(text.contains("/tmp/toft-65534/libtoft-"), "{text}");
}
