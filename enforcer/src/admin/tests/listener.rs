//! One agent at a time, and nobody else's socket.

use crate::admin::{ListenError, Listener};
use std::{
    ffi::OsString,
    fs,
    os::unix::{fs::MetadataExt as _, net::UnixListener},
    path::{Path, PathBuf},
};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("run/admin.sock");
    (dir, path)
}

fn names(folder: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(folder).expect("is read");
    entries.map(|entry| entry.expect("an entry").file_name()).collect()
}

#[test]
fn it_is_its_owners_alone_and_leaves_nothing() {
    let (_dir, path) = place();
    let folder = path.parent().expect("a folder");
    for _ in 0..2 {
        let listener = Listener::bind(&path).expect("listens");
        let mode = |path: &Path| fs::metadata(path).expect("is there").mode() & 0o7777;
        assert_eq!((mode(&path), mode(folder)), (0o600, 0o700));
        assert_eq!(listener.path(), path);
        drop(listener);
        assert_eq!(names(folder), Vec::<OsString>::new());
    }
}

#[test]
fn a_living_agent_keeps_it() {
    let (_dir, path) = place();
    let first = Listener::bind(&path).expect("listens");
    for _ in 0..2 {
        let second = Listener::bind(&path);
        let Err(ListenError::Taken { pid, .. }) = second else { panic!("{second:?}") };
        assert_eq!(pid, Some(std::process::id()));
    }
    let inode = fs::metadata(&path).expect("still there").ino();
    drop(first);
    assert!(Listener::bind(&path).is_ok_and(|_| inode > 0));
}

#[test]
fn who_listens_without_the_lock_keeps_it_as_well() {
    let (_dir, path) = place();
    fs::create_dir(path.parent().expect("a folder")).expect("is made");
    let other = UnixListener::bind(&path).expect("listens");
    let error = Listener::bind(&path).expect_err("it is taken");
    assert!(error.to_string().contains(&format!("(process {})", std::process::id())), "{error}");
    // Dead by now, its socket is still there.
    drop(other);
    assert!(path.exists());
    drop(Listener::bind(&path).expect("replaces it"));
}

#[test]
fn of_many_at_once_one_gets_it() {
    let (_dir, path) = place();
    let start = std::sync::Barrier::new(8);
    let bound = std::thread::scope(|scope| {
        let bind = || {
            start.wait();
            Listener::bind(&path)
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(bind)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let (won, lost): (Vec<_>, Vec<_>) = bound.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    for lost in lost {
        assert!(matches!(lost, Err(ListenError::Taken { .. })), "{lost:?}");
    }
}

#[test]
fn what_is_no_socket_stays() {
    let (_dir, path) = place();
    fs::create_dir(path.parent().expect("a folder")).expect("is made");
    fs::write(&path, "precious").expect("writes");
    assert!(matches!(Listener::bind(&path), Err(ListenError::NoSocket { .. })));
    assert_eq!(fs::read(&path).expect("still there"), b"precious");
    fs::remove_file(&path).expect("is removed");
    std::os::unix::fs::symlink("elsewhere", &path).expect("is made");
    assert!(matches!(Listener::bind(&path), Err(ListenError::NoSocket { .. })));
}

#[test]
fn what_came_in_its_place_stays() {
    let (_dir, path) = place();
    let listener = Listener::bind(&path).expect("listens");
    fs::remove_file(&path).expect("is removed");
    let other = UnixListener::bind(&path).expect("listens");
    drop(listener);
    assert!(path.exists());
    drop(other);
}

#[test]
fn a_folder_that_others_write_to_or_a_path_too_long_is_refused() {
    let (dir, path) = place();
    let mode = |mode| {
        fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("is set");
    };
    mode(0o777);
    let error = Listener::bind(&dir.path().join("admin.sock")).expect_err("anybody could replace it");
    assert!(error.to_string().contains("somebody else can write to it"), "{error}");
    mode(0o700);
    let long = path.with_file_name("a".repeat(107));
    for path in [long.as_path(), Path::new("admin.sock"), Path::new("/")] {
        assert!(matches!(Listener::bind(path), Err(ListenError::Path { .. })), "{path:?}");
    }
}
