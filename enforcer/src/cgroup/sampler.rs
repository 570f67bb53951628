//! Reads everything that a [`Sample`] holds, from files that stay open.

pub(super) mod parts;

use super::{Cgroup, CgroupError, FILE_BYTES_MAX, shown};
use enforcer_gate::{Bytes, Sample, SwapRoom};
use parts::{Around, Host, HostFiles, Level, Own};

/// Reads one cgroup again and again. All files are opened once, so a reading costs a `pread` each and a cgroup
/// that takes over the path is never read by mistake.
#[derive(Debug)]
pub struct Sampler {
    own: Own,
    ancestors: Vec<(String, Level)>,
    host: Host,
    buffer: Box<[u8]>,
}

/// Swap may be turned on later.
const ANY: SwapRoom = SwapRoom { free: Bytes::new(u64::MAX), zswap: true };

impl Sampler {
    /// Opens the files. Fails with [`CgroupError::NoMemoryFiles`] where the cgroup has none: the root, a threaded
    /// cgroup, or one whose parent does not hand on the controller.
    pub fn new(cgroup: &Cgroup) -> Result<Self, CgroupError> {
        Self::with_host(cgroup, HostFiles::of_this_host())
    }

    pub(crate) fn with_host(cgroup: &Cgroup, host: HostFiles<'_>) -> Result<Self, CgroupError> {
        let own = Own::open(cgroup, ANY)?;
        let ancestors = cgroup.ancestors()?;
        let ancestors = ancestors.iter().map(|a| Ok((shown(a.path()), Level::open(a, ANY)?)));
        Ok(Self {
            own,
            ancestors: ancestors.collect::<Result<_, CgroupError>>()?,
            host: Host::open(host)?,
            buffer: vec![0; FILE_BYTES_MAX].into_boxed_slice(),
        })
    }

    /// The cgroup that is read.
    pub fn cgroup(&self) -> &Cgroup {
        self.own.cgroup()
    }

    /// One reading.
    ///
    /// Fails with [`CgroupError::Gone`] once the cgroup or an ancestor was removed.
    pub fn sample(&mut self) -> Result<Sample, CgroupError> {
        let buffer = &mut self.buffer;
        let mut room = self.host.room(buffer)?;
        let mut ancestors = Vec::with_capacity(self.ancestors.len());
        for (path, level) in &self.ancestors {
            room = level.swap_room(room, buffer)?;
            ancestors.push(level.limit(path, buffer)?);
        }
        self.own.sample(Around { room, ancestors }, buffer)
    }
}

#[cfg(test)]
mod tests;
