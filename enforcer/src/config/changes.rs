//! Waits until a configuration's file is another one than was read.

use super::file::Version;
use nix::{
    sys::inotify::{AddWatchFlags, InitFlags, Inotify},
    unistd::read,
};
use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};
use tokio::io::unix::AsyncFd;

/// The folder of a file, watched by the kernel (`inotify(7)`).
///
/// What counts is a file that was closed after it was written, and a name that was moved into the folder: that is how the
/// kubelet brings a changed `ConfigMap`, by a symbolic link of another name. A target that is written to behind a symbolic
/// link, in another folder, is not seen.
#[derive(Debug)]
pub struct Changes {
    file: PathBuf,
    known: Option<Version>,
    folder: AsyncFd<OwnedFd>,
}

impl Changes {
    /// `known` is what was read last. Must be called in a tokio runtime; fails where the folder can't be watched.
    pub fn watch(file: &Path, known: Option<Version>) -> io::Result<Self> {
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) | None => Path::new("."),
        };
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let what = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ONLYDIR;
        inotify.add_watch(folder, what)?;
        // SAFETY: an owned descriptor stays open, and the same, for as long as its owner lives.
        let folder = unsafe { AsyncFd::register(OwnedFd::from(inotify)) }.map_err(io::Error::from)?;
        Ok(Self { file: file.into(), known, folder })
    }

    /// Comes back once there is another file than was known before. One that has gone is none. Cancel safe.
    pub async fn next(&mut self) {
        loop {
            if let Some(now) = Version::of(&self.file)
                && self.known != Some(now)
            {
                self.known = Some(now);
                return;
            }
            // The descriptor is our own: what fails here would fail again, and there is nothing to hear any more.
            let Ok(mut ready) = self.folder.readable().await else { return std::future::pending().await };
            // What they say does not matter, but that there were some.
            let mut events = [0; 4096];
            while read(self.folder.get_ref(), &mut events).is_ok() {}
            ready.clear_ready();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink, time::Duration};
    use tokio::time::timeout;

    const LONG: Duration = Duration::from_mins(1);

    async fn is_seen(changes: &mut Changes) {
        timeout(LONG, changes.next()).await.expect("is seen");
    }

    /// Whatever the kernel has to tell by now is taken, and is no change.
    async fn is_nothing(changes: &mut Changes) {
        tokio::select! {
            biased;
            () = changes.next() => panic!("nothing has changed"),
            () = async { for _ in 0..100 { tokio::task::yield_now().await } } => {}
        }
    }

    #[tokio::test]
    async fn a_file_that_is_written_replaced_or_was_missed_is_seen_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.toml");
        let known = Version::of(&file);
        assert_eq!(known, None);
        fs::write(&file, "a = 1").expect("writes");
        // Between the reading and the watch.
        let mut changes = Changes::watch(&file, known).expect("watches");
        is_seen(&mut changes).await;
        is_nothing(&mut changes).await;
        fs::write(folder.path().join("other"), "of no interest").expect("writes");
        is_nothing(&mut changes).await;
        fs::write(&file, "a = 2").expect("writes");
        is_seen(&mut changes).await;
        fs::remove_file(&file).expect("removes");
        is_nothing(&mut changes).await;
        fs::write(folder.path().join("new"), "a = 3").expect("writes");
        fs::rename(folder.path().join("new"), &file).expect("renames");
        is_seen(&mut changes).await;
        is_nothing(&mut changes).await;
    }

    #[tokio::test]
    async fn a_config_map_is_followed_through_its_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let put = |version: &str, text: &str| {
            fs::create_dir(at(version)).expect("a folder");
            fs::write(at(version).join("a.toml"), text).expect("writes");
            symlink(version, at("..data_tmp")).expect("links");
            fs::rename(at("..data_tmp"), at("..data")).expect("renames");
        };
        put("..1", "a = 1");
        symlink("..data/a.toml", at("a.toml")).expect("links");
        let mut changes = Changes::watch(&at("a.toml"), Version::of(&at("a.toml"))).expect("watches");
        is_nothing(&mut changes).await;
        put("..2", "a = 2");
        is_seen(&mut changes).await;
        is_nothing(&mut changes).await;
    }

    #[tokio::test]
    async fn a_folder_that_is_not_there_is_an_error() {
        let error = Changes::watch(Path::new("/none/at/all"), None).expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
