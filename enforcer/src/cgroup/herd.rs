//! Reads many cgroups in turn, each as seldom as that is wanted.

use super::{
    Cgroup, CgroupError, FILE_BYTES_MAX,
    sampler::parts::{Around, Host, HostFiles, Level, Own},
    shown,
};
use enforcer_gate::{AncestorLimit, Instant, Micros, Sample, SwapRoom};
use std::{collections::BTreeMap, path::PathBuf};

/// How long what was read of the node, and of a cgroup above others, stands for all that are read after it.
const STANDS: Micros = Micros::from_secs(1);

/// Reads cgroups of one hierarchy. No file stays open, so there may be any number of them; what several have in common,
/// which is the node and the cgroups above them, is read once for those that are read within a second.
#[derive(Debug)]
pub struct Herd {
    host: Host,
    /// When the node was read, and what it leaves for swap.
    room: Option<(Instant, SwapRoom)>,
    /// Cgroups above others that were read since.
    above: BTreeMap<PathBuf, Above>,
    buffer: Box<[u8]>,
}

#[derive(Debug)]
struct Above {
    limit: AncestorLimit,
    room: SwapRoom,
}

impl Herd {
    /// For this host.
    pub fn new() -> Result<Self, CgroupError> {
        Self::with_host(HostFiles::of_this_host())
    }

    pub(crate) fn with_host(host: HostFiles<'_>) -> Result<Self, CgroupError> {
        let host = Host::open(host)?;
        let buffer = vec![0; FILE_BYTES_MAX].into_boxed_slice();
        Ok(Self { host, room: None, above: BTreeMap::new(), buffer })
    }

    /// One reading of one cgroup at `now`, with the share of the last ten seconds in which some, and all, of its tasks
    /// waited for memory, in hundredths of a per cent.
    ///
    /// Fails with [`CgroupError::Gone`] where the cgroup or an ancestor was removed.
    pub fn read(&mut self, cgroup: &Cgroup, now: Instant) -> Result<(Sample, (u64, u64)), CgroupError> {
        let node = self.node(now)?;
        let mut around = Around { room: node, ancestors: Vec::new() };
        for path in cgroup.path().ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()) {
            if !self.above.contains_key(path) {
                let above = above(cgroup, path, node, &mut self.buffer)?;
                self.above.insert(path.into(), above);
            }
            let Above { limit, room } = &self.above[path];
            around.room.free = around.room.free.min(room.free);
            around.room.zswap &= room.zswap;
            around.ancestors.push(limit.clone());
        }
        let own = Own::open(cgroup, around.room)?;
        let sample = own.sample(around, &mut self.buffer)?;
        Ok((sample, own.psi_avg10(&mut self.buffer)?))
    }

    /// What the node leaves for swap. Where that is read anew, so is everything else.
    fn node(&mut self, now: Instant) -> Result<SwapRoom, CgroupError> {
        match self.room {
            Some((at, room)) if now.since(at) < STANDS => Ok(room),
            Some(_) | None => {
                self.above.clear();
                let room = self.host.room(&mut self.buffer)?;
                self.room = Some((now, room));
                Ok(room)
            }
        }
    }
}

fn above(
    cgroup: &Cgroup,
    path: &std::path::Path,
    node: SwapRoom,
    buffer: &mut [u8],
) -> Result<Above, CgroupError> {
    let ancestor = match Cgroup::open_in(cgroup.mount(), path) {
        // It was there, or the one below it could not have been opened.
        Err(CgroupError::NoSuch { path }) => return Err(CgroupError::Gone { path }),
        result => result?,
    };
    let level = Level::open(&ancestor, node)?;
    Ok(Above { room: level.swap_room(node, buffer)?, limit: level.limit(&shown(path), buffer)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::{Sampler, fixture::Fixture};
    use enforcer_gate::{Bytes, Limit};

    /// A node with so much swap in KiB, and zswap.
    fn host(swap_free_kib: u64) -> [tempfile::NamedTempFile; 2] {
        let files = [(); 2].map(|()| tempfile::NamedTempFile::new().expect("a file"));
        std::fs::write(files[0].path(), format!("SwapFree: {swap_free_kib} kB\n")).expect("writes");
        std::fs::write(files[1].path(), "Y\n").expect("writes");
        files
    }

    fn tree() -> Fixture {
        let tree = Fixture::new();
        for cgroup in ["pod/a", "pod/b"] {
            tree.cgroup(cgroup);
            tree.write(
                &format!("{cgroup}/memory.pressure"),
                "some avg10=1.25 total=10\nfull avg10=0.50 total=7\n",
            );
        }
        tree.write("pod/memory.max", "1048576\n");
        tree.write("pod/memory.swap.max", "10000000\n");
        tree.write("pod/memory.swap.current", "4000000\n");
        tree.write("pod/a/memory.current", "8192\n");
        tree.write("pod/b/memory.zswap.max", "0\n");
        tree
    }

    #[test]
    fn a_reading_is_the_one_that_a_sampler_takes() {
        for swap_free_kib in [0, 100, 1_000_000] {
            let (tree, host) = (tree(), host(swap_free_kib));
            let files = || HostFiles { meminfo: host[0].path(), zswap_enabled: host[1].path() };
            let mut herd = Herd::with_host(files()).expect("opens");
            for name in ["pod/a", "pod/b"] {
                let cgroup = tree.open(name).expect("is there");
                let alone = Sampler::with_host(&cgroup, files()).expect("opens").sample().expect("reads");
                let (sample, avg10) = herd.read(&cgroup, Instant::new(5)).expect("reads");
                assert_eq!((sample, avg10), (alone, (125, 50)), "{name} with {swap_free_kib} KiB of swap");
            }
        }
    }

    #[test]
    fn what_is_above_stands_for_a_second_and_the_cgroup_itself_is_always_read() {
        let (tree, host) = (tree(), host(0));
        let files = HostFiles { meminfo: host[0].path(), zswap_enabled: host[1].path() };
        let mut herd = Herd::with_host(files).expect("opens");
        let cgroup = tree.open("pod/a").expect("is there");
        let mut read = |at: u64| {
            let (sample, _) = herd.read(&cgroup, Instant::new(at)).expect("reads");
            (sample.current, sample.ancestors[0].max)
        };
        let bytes = |bytes| Limit::Bytes(Bytes::new(bytes));
        assert_eq!(read(0), (Bytes::new(8192), bytes(1_048_576)));
        tree.write("pod/memory.max", "2097152\n");
        tree.write("pod/a/memory.current", "12288\n");
        assert_eq!(read(999_999), (Bytes::new(12288), bytes(1_048_576)));
        assert_eq!(read(1_000_000), (Bytes::new(12288), bytes(2_097_152)));
    }

    #[test]
    fn psi_that_is_off_is_no_error() {
        let (tree, host) = (tree(), host(0));
        tree.remove("pod/a/memory.pressure");
        let files = HostFiles { meminfo: host[0].path(), zswap_enabled: host[1].path() };
        let cgroup = tree.open("pod/a").expect("is there");
        let (sample, avg10) =
            Herd::with_host(files).expect("opens").read(&cgroup, Instant::new(0)).expect("reads");
        assert_eq!((sample.pressure, avg10), (None, (0, 0)));
    }
}
