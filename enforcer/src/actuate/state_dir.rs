//! Where journals live.

use super::{ActuateError, holder::holder, record::JOURNAL_BYTES};
use crate::private_dir::{private_dir, trusted_dir};
use enforcer_gate::CgroupId;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use std::{
    fs::{File, OpenOptions},
    io::Read as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

/// Used where no other is named.
pub const STATE_DIR_DEFAULT: &str = "/var/lib/enforcer";

/// Most journals that are looked through.
pub(super) const JOURNAL_COUNT_MAX: usize = 4096;

/// How long the folder's lock is waited for. It is held while journals are looked through and one is made, which takes
/// milliseconds.
const LOCK_MAX: Duration = Duration::from_secs(30);

/// A folder for journals: one file for each cgroup that is being worked on, or was when its process was killed.
#[derive(Debug, Clone)]
pub struct StateDir {
    path: PathBuf,
}

/// A journal's file with what was in it.
#[derive(Debug)]
pub(super) struct JournalFile {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    /// Ours to settle, where no living process holds it.
    pub(super) lock: Option<Flock<File>>,
}

impl StateDir {
    /// Opens the folder and makes it (for its owner alone) where it is missing.
    ///
    /// Fails with [`ActuateError::StateDir`], saying what to do; also where somebody else can write to it, for whoever
    /// writes a journal says what limits are put back to.
    pub fn open(path: &Path) -> Result<Self, ActuateError> {
        private_dir(path).map_err(|(call, source)| ActuateError::state(path, call, source))?;
        Ok(Self { path: path.into() })
    }

    /// Opens the folder where it is there, and makes nothing: for whoever only looks.
    pub fn find(path: &Path) -> Result<Option<Self>, ActuateError> {
        match trusted_dir(path) {
            Ok(()) => Ok(Some(Self { path: path.into() })),
            Err((_, error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err((call, source)) => Err(ActuateError::state(path, call, source)),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn journal_path(&self, cgroup: CgroupId) -> PathBuf {
        self.path.join(format!("{:016x}.journal", cgroup.get()))
    }

    /// Keeps everyone else from starting or settling work while it is held. Fails with [`ActuateError::Locked`] where
    /// somebody does not let go of it.
    pub(super) fn lock(&self) -> Result<Flock<File>, ActuateError> {
        self.lock_within(LOCK_MAX)
    }

    fn lock_within(&self, span: Duration) -> Result<Flock<File>, ActuateError> {
        let path = self.path.join("lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(|source| ActuateError::state(&path, "open", source))?;
        let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((file, Errno::EWOULDBLOCK)) => file,
            Err((_, errno)) => return Err(ActuateError::state(path, "lock", errno)),
        };
        let held = file.try_clone().map_err(|source| ActuateError::state(&path, "lock", source))?;
        let (answer, answered) = mpsc::sync_channel(1);
        // The kernel knows no limit for this wait. Where nobody waits for the answer any more, the lock goes with it.
        std::thread::Builder::new()
            .name("enforcer-lock".into())
            .spawn(move || answer.send(lock_waiting(file)))
            .map_err(|source| ActuateError::system("start a thread", source))?;
        match answered.recv_timeout(span) {
            Ok(locked) => locked.map_err(|errno| ActuateError::state(path, "lock", errno)),
            Err(_) => Err(ActuateError::Locked { pid: holder(&held), path }),
        }
    }

    /// Whether there is no journal, so that nothing can be left to settle.
    pub fn is_empty(&self) -> bool {
        self.journals().is_ok_and(|(paths, _)| paths.is_empty())
    }

    /// Whether a run that no longer lives left a journal of this cgroup, which [`super::recover`] would settle.
    pub fn is_left(&self, cgroup: CgroupId) -> Result<bool, ActuateError> {
        let path = self.journal_path(cgroup);
        if !path.exists() {
            return Ok(false);
        }
        // Whoever settles at this moment must not take this look for a living run.
        let _lock = self.lock()?;
        Ok(JournalFile::read(path)?.is_some_and(|file| file.lock.is_some()))
    }

    /// The path of every journal, in the order of their names, and whether there are more than are looked through.
    pub(super) fn journals(&self) -> Result<(Vec<PathBuf>, bool), ActuateError> {
        let list = |source| ActuateError::state(&self.path, "list", source);
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(list)? {
            let path = entry.map_err(list)?.path();
            if path.extension().is_some_and(|extension| extension == "journal") {
                if paths.len() == JOURNAL_COUNT_MAX {
                    return Ok((paths, true));
                }
                paths.push(path);
            }
        }
        paths.sort();
        Ok((paths, false))
    }
}

fn lock_waiting(mut file: File) -> Result<Flock<File>, Errno> {
    loop {
        match Flock::lock(file, FlockArg::LockExclusive) {
            Ok(lock) => return Ok(lock),
            Err((again, Errno::EINTR)) => file = again,
            Err((_, errno)) => return Err(errno),
        }
    }
}

impl JournalFile {
    /// `None` where it was removed meanwhile. What is no plain file was not made here and comes out empty.
    pub(super) fn read(path: PathBuf) -> Result<Option<Self>, ActuateError> {
        // Not blocking: opening a named pipe or a device could wait for ever.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let foreign = |path| Ok(Some(Self { path, bytes: Vec::new(), lock: None }));
        let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOENT) => return Ok(None),
                Some(libc::ELOOP | libc::EISDIR | libc::ENXIO) => return foreign(path),
                Some(_) | None => return Err(ActuateError::state(path, "open", error)),
            },
        };
        let metadata = file.metadata().map_err(|source| ActuateError::state(&path, "read", source))?;
        if !metadata.is_file() {
            return foreign(path);
        }
        // Locked before it is read: an owner that dies in between has written its last by then.
        let locked = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        let file: &File = match &locked {
            Ok(lock) => lock,
            Err((file, Errno::EWOULDBLOCK)) => file,
            Err((_, errno)) => return Err(ActuateError::state(path, "lock", *errno)),
        };
        let mut bytes = Vec::with_capacity(JOURNAL_BYTES);
        let read = file.take(JOURNAL_BYTES as u64).read_to_end(&mut bytes);
        read.map_err(|source| ActuateError::state(&path, "read", source))?;
        let lock = locked.ok();
        Ok(Some(Self { path, bytes, lock }))
    }
}

/// This boot's id.
pub(super) fn boot_id() -> Result<[u8; 16], ActuateError> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text =
        std::fs::read_to_string(path).map_err(|source| ActuateError::system("read the boot id", source))?;
    parse_boot_id(&text).ok_or_else(|| ActuateError::system("read the boot id", Errno::EBADMSG))
}

fn parse_boot_id(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.trim_end().bytes().filter(|byte| *byte != b'-').collect();
    let mut id = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

    #[test]
    fn boot_ids_are_uuids() {
        let id = parse_boot_id("00010203-0405-0607-0809-0a0b0c0d0e0f\n").unwrap();
        assert_eq!(id, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        for wrong in ["", "0001", "zz010203-0405-0607-0809-0a0b0c0d0e0f"] {
            assert_eq!(parse_boot_id(wrong), None);
        }
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
    }

    #[test]
    fn a_folder_that_can_not_be_made_says_what_to_do() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = StateDir::open(&file.path().join("below")).unwrap_err();
        assert!(error.to_string().contains("--state-dir"), "{error}");
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        for (mode, trusted) in [(0o755, true), (0o775, false), (0o757, false), (0o700, true)] {
            std::fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            let opened = StateDir::open(folder.path()).map(drop).map_err(|error| error.to_string());
            assert_eq!(opened.is_ok(), trusted, "{mode:o}: {opened:?}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_not_made_by_looking() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("a/b");
        assert!(StateDir::find(&missing).unwrap().is_none());
        assert!(!folder.path().join("a").exists());
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(StateDir::find(folder.path()).is_err(), "one that is there is not trusted blindly");
    }

    #[test]
    fn a_lock_is_waited_for_and_no_longer_than_said() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let held = state.lock().unwrap();
        let waited = state.lock_within(Duration::from_millis(20));
        assert!(matches!(waited, Err(ActuateError::Locked { .. })), "{waited:?}");
        let other = state.clone();
        let thread = std::thread::spawn(move || other.lock_within(Duration::from_mins(1)).map(drop));
        drop(held);
        thread.join().unwrap().unwrap();
        // The one that gave up lets go of what it gets too late.
        drop(state.lock_within(Duration::from_mins(1)).unwrap());
    }

    #[test]
    fn a_lock_does_not_lead_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, folder.path().join("lock")).unwrap();
        assert!(StateDir::open(folder.path()).unwrap().lock().is_err());
        assert!(!elsewhere.exists());
    }
}
