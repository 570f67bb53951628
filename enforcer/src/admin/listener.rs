//! The socket itself: made for its owner alone, by one agent at a time.

use super::ListenError;
use crate::private_dir::private_dir;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    sys::{
        socket::{
            AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen, socket,
            sockopt::PeerCredentials,
        },
        stat::{Mode, fchmod},
    },
};
use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::{
            fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
};

/// Connections that wait to be taken.
const BACKLOG: i32 = 32;
/// What a path may have of `sun_path`, less the zero at its end.
const PATH_BYTES_MAX: usize = 107;
/// How often a lock that was removed in the meantime is made anew.
const LOCK_TRIES_MAX: usize = 8;

/// A socket that only its owner can connect to. It is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: UnixListener,
    path: PathBuf,
    /// Device and inode: whatever else comes to be at the path stays there.
    identity: (u64, u64),
    lock: (PathBuf, Flock<File>),
}

impl Listener {
    /// Makes the socket (0600), and its folder (0700) where that is missing. What a dead agent left there is replaced;
    /// a living agent's is not.
    pub fn bind(path: &Path) -> Result<Self, ListenError> {
        let folder = path.parent().filter(|_| path.is_absolute() && path.as_os_str().len() <= PATH_BYTES_MAX);
        let Some(folder) = folder else {
            return Err(ListenError::Path { socket: path.into(), bytes_max: PATH_BYTES_MAX });
        };
        private_dir(folder).map_err(|(call, source)| ListenError::Io {
            path: folder.into(),
            call,
            source,
        })?;
        let lock = lock(path)?;
        remove_dead(path)?;
        let socket = made(path)?;
        let found = std::fs::symlink_metadata(path).map_err(io_error(path, "look at"))?;
        Ok(Self { socket, path: path.into(), identity: (found.dev(), found.ino()), lock })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let found = std::fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
        // Still locked: whoever opened it meanwhile sees that it is another file by then.
        let _ = std::fs::remove_file(&self.lock.0);
    }
}

/// The lock beside the socket, for as long as the file lives.
fn lock(socket: &Path) -> Result<(PathBuf, Flock<File>), ListenError> {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    for _ in 0..LOCK_TRIES_MAX {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(&path).map_err(io_error(&path, "open"))?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EWOULDBLOCK)) => {
                return Err(ListenError::Taken {
                    socket: socket.into(),
                    pid: listening(socket).unwrap_or(None),
                });
            }
            Err((_, error)) => return Err(io_error(&path, "lock")(error.into())),
        };
        let ours = lock.metadata().map_err(io_error(&path, "look at"))?;
        let there = std::fs::symlink_metadata(&path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            return Ok((path, lock));
        }
    }
    Err(io_error(&path, "lock")(io::Error::other("others remove it all the time")))
}

/// Removes a socket on which nobody listens.
fn remove_dead(path: &Path) -> Result<(), ListenError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(path, "look at")(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ListenError::NoSocket { socket: path.into() });
        }
        Ok(_) => {}
    }
    match listening(path) {
        Ok(pid) => Err(ListenError::Taken { socket: path.into(), pid }),
        Err(Errno::ECONNREFUSED) => std::fs::remove_file(path).map_err(io_error(path, "remove")),
        Err(error) => Err(io_error(path, "connect to")(error.into())),
    }
}

/// The process that listens at `path`, where it is known. Does not wait: whose queue is full listens as well.
fn listening(path: &Path) -> Result<Option<u32>, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match connect(probe.as_raw_fd(), &UnixAddr::new(path)?) {
        Ok(()) => {
            Ok(getsockopt(&probe, PeerCredentials).ok().and_then(|peer| u32::try_from(peer.pid()).ok()))
        }
        Err(Errno::EAGAIN) => Ok(None),
        Err(error) => Err(error),
    }
}

fn made(path: &Path) -> Result<UnixListener, ListenError> {
    let made = || {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        // Before it has a name: it is born with this mode, whatever the umask adds to what is masked.
        fchmod(socket.as_fd(), Mode::S_IRUSR | Mode::S_IWUSR)?;
        bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
        listen(&socket, Backlog::new(BACKLOG)?)?;
        Ok::<_, Errno>(socket)
    };
    made().map(UnixListener::from).map_err(|error| io_error(path, "listen at")(error.into()))
}

fn io_error(path: &Path, call: &'static str) -> impl FnOnce(io::Error) -> ListenError {
    let path = path.to_owned();
    move |source| ListenError::Io { path, call, source }
}
