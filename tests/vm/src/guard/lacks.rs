//! Where a guard can't stand, and what the command then says.

use super::command::{ENFORCER, enforcer, path};
use enforcer_vm_tests::scratch::Scratch;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// In a process whose `/sys/kernel/security/lsm` says so.
pub(super) fn no_bpf() {
    const LIST: &CStr = c"/sys/kernel/security/lsm";
    let folder = tempfile::tempdir_in("/data").expect("a folder");
    let list = folder.path().join("lsm");
    std::fs::write(&list, "landlock,yama").expect("write the list");
    let list = CString::new(list.as_os_str().as_bytes()).expect("a path without NUL");
    let cgroup = Scratch::new("nobpf");
    for (args, part) in [
        (vec![OsStr::new("guard"), path(&cgroup)], "boot with lsm=landlock,yama,bpf"),
        (vec![OsStr::new("check")], "lsm=landlock,yama,bpf"),
    ] {
        let list = list.clone();
        let mut command = Command::new(ENFORCER);
        command.args(&args).stdin(Stdio::null());
        // SAFETY: system calls only, on strings that were made before.
        unsafe {
            command.pre_exec(move || {
                let none = std::ptr::null();
                let private = libc::MS_REC | libc::MS_PRIVATE;
                if libc::unshare(libc::CLONE_NEWNS) != 0
                    || libc::mount(none, c"/".as_ptr(), none, private, none.cast()) != 0
                    || libc::mount(list.as_ptr(), LIST.as_ptr(), none, libc::MS_BIND, none.cast()) != 0
                {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let output = command.output().expect("start enforcer");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let code = if args[0] == "guard" { 69 } else { 0 };
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

pub(super) fn no_privilege() {
    let output =
        Command::new(ENFORCER).args(["guard", "status"]).uid(65534).output().expect("start enforcer");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{text}");
    assert!(text.contains("run it as root"), "{text}");
}

pub(super) fn wrong() {
    let cgroup = Scratch::new("wrong");
    let gone = cgroup.path().join("nobody");
    for (args, code, part) in [
        (vec![OsStr::new("guard")], 64, "Usage"),
        (vec![OsStr::new("guard"), OsStr::new("--mode=off"), path(&cgroup)], 64, "audit or enforce"),
        (vec![OsStr::new("guard"), OsStr::new("--mode=audit")], 64, "no cgroup is named"),
        (vec![OsStr::new("guard"), gone.as_os_str()], 64, "no such cgroup"),
        (vec![OsStr::new("guard"), OsStr::new("/etc")], 64, "not below the cgroup mount"),
    ] {
        let output = enforcer(&args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}
