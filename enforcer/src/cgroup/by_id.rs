//! From a cgroup's id back to its path.

use super::{CgroupError, Mount};
use enforcer_gate::CgroupId;
use std::{
    fs::read_link,
    os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd},
    path::PathBuf,
};

/// `FILEID_KERNFS` (include/linux/exportfs.h): a handle that is the node's id.
const KERNFS: i32 = 0xfe;

/// A `struct file_handle` with room for an id.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    id: u64,
}

impl Mount {
    /// Where the cgroup with this id is; `None` for one that is gone, or outside what is mounted here. Needs
    /// `CAP_DAC_READ_SEARCH`.
    pub fn path_of(&self, cgroup: CgroupId) -> Result<Option<PathBuf>, CgroupError> {
        let handle = Handle { bytes: 8, kind: KERNFS, id: cgroup.get() };
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: the handle lives through the call; a descriptor that comes back is nobody else's.
        let fd = unsafe {
            let root = self.as_fd().as_raw_fd();
            let fd = libc::syscall(libc::SYS_open_by_handle_at, root, &raw const handle, flags);
            match i32::try_from(fd) {
                Ok(fd) if fd >= 0 => OwnedFd::from_raw_fd(fd),
                Ok(_) | Err(_) => {
                    let error = std::io::Error::last_os_error();
                    return match error.raw_os_error() {
                        Some(libc::ESTALE | libc::ENOENT | libc::ENOTDIR) => Ok(None),
                        Some(_) | None => Err(CgroupError::io(self.point(), "look for an id in", error)),
                    };
                }
            }
        };
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let path =
            read_link(link).map_err(|error| CgroupError::io(self.point(), "name a cgroup in", error))?;
        Ok(path.starts_with(self.point()).then_some(path).filter(|path| !is_removed(path)))
    }
}

/// How the kernel shows a folder that was removed while it was open.
fn is_removed(path: &std::path::Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    path.as_os_str().as_bytes().ends_with(b" (deleted)") && !path.exists()
}
