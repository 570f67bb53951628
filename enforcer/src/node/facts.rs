//! Gathers what is there. Reads only.

use crate::cgroup::{
    Mount,
    mountinfo::{Hierarchy, cgroup_mounts, hierarchy},
};
use enforcer_abi::Grammar;
use enforcer_gate::Bytes;
use nix::sys::statvfs::{FsFlags, statvfs};
use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Most bytes read of one of the kernel's files.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Most folders of the cgroup mount looked at for one with memory files.
const FOLDERS_MAX: usize = 256;

/// What was found. A field that could not be read holds nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The kernel.
    pub release: Release,
    /// Effective user and capabilities of this process.
    pub capabilities: Capabilities,
    /// Who has the memory controller.
    pub memory: MemoryController,
    /// The cgroup file system can't be written to.
    pub read_only: bool,
    /// Pressure stall information.
    pub psi: Psi,
    /// Whether `/sys/kernel/btf/vmlinux` is there.
    pub btf: bool,
    /// Active security modules; `None` where securityfs is not mounted.
    pub lsm: Option<Vec<String>>,
    /// Swap: total and free.
    pub swap: Option<(Bytes, Bytes)>,
    /// zswap is on.
    pub zswap: bool,
    /// `memory.reclaim` is there; `None` where no cgroup has memory files.
    pub reclaim: Option<bool>,
    /// `memory.peak` is there.
    pub peak: Option<PeakFile>,
}

/// A kernel release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// As the kernel prints it.
    pub text: String,
    /// Its first two numbers; zeros where it does not begin with them.
    pub numbers: (u32, u32),
}

/// What this process may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Effective user id.
    pub euid: u32,
    /// Effective capabilities, a bit each (`include/uapi/linux/capability.h`).
    pub effective: u64,
}

/// Who has the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryController {
    /// cgroup v2, mounted here.
    V2(PathBuf),
    /// cgroup v1, mounted here; `v2` is where a cgroup2 without it is mounted besides ("hybrid").
    V1 {
        /// Where v1 has it.
        point: PathBuf,
        /// Where cgroup2 is.
        v2: Option<PathBuf>,
    },
    /// cgroup2 is mounted here and does not offer it.
    Off(PathBuf),
    /// No cgroup2 is mounted.
    NotMounted,
    /// The mounts can't be read.
    Unknown(String),
}

/// Pressure stall information.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Psi {
    /// It counts.
    On,
    /// The kernel has it, and it is off.
    Off,
    /// There is no sign of it.
    Absent,
}

/// `memory.peak`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeakFile {
    /// It can be reset for each descriptor (6.12).
    Resettable,
    /// It can be read only.
    ReadOnly,
    /// There is none (before 5.19).
    Absent,
}

impl Facts {
    /// Looks at this node.
    pub fn gather() -> Self {
        let memory = memory_controller();
        let sample = match &memory {
            MemoryController::V2(point) => with_memory_files(point),
            MemoryController::V1 { .. }
            | MemoryController::Off(_)
            | MemoryController::NotMounted
            | MemoryController::Unknown(_) => None,
        };
        Self {
            release: Release::running(),
            capabilities: Capabilities::parse(&text("/proc/self/status").unwrap_or_default()),
            psi: psi(),
            btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            lsm: security_modules(),
            swap: text("/proc/meminfo").as_deref().and_then(swap),
            zswap: text("/sys/module/zswap/parameters/enabled").is_some_and(|flag| flag.trim() == "Y"),
            read_only: matches!(&memory, MemoryController::V2(point) if is_read_only(point)),
            reclaim: sample.as_ref().map(|folder| folder.join("memory.reclaim").exists()),
            peak: sample.as_ref().map(|folder| peak_file(folder)),
            memory,
        }
    }
}

/// The active security modules; `None` where securityfs is not mounted.
pub(crate) fn security_modules() -> Option<Vec<String>> {
    text("/sys/kernel/security/lsm").map(|list| list.trim().split(',').map(Into::into).collect())
}

/// The first that was tried with the strict grammar (docs/guard.md).
const STRICT: (u32, u32) = (7, 3);

impl Release {
    /// The running kernel's; empty where it does not tell.
    pub fn running() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default())
    }

    /// How it reads what is written to a limit. Where that is not known it is what gives the lower limit.
    pub fn limit_grammar(&self) -> Grammar {
        if self.numbers >= STRICT { Grammar::Strict } else { Grammar::Loose }
    }

    fn parse(text: &str) -> Self {
        let mut numbers =
            text.trim().split(|c: char| !c.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
        let numbers = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        Self { text: text.trim().into(), numbers }
    }
}

impl Capabilities {
    fn parse(status: &str) -> Self {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        Self {
            euid: field("Uid:")
                .and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok())
                .unwrap_or(u32::MAX),
            effective: field("CapEff:").and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0),
        }
    }

    /// Whether this one is there.
    pub fn has(&self, bit: u32) -> bool {
        self.effective >> bit & 1 == 1
    }
}

fn memory_controller() -> MemoryController {
    let mounts = match bytes("/proc/self/mountinfo") {
        Ok(text) => cgroup_mounts(&text),
        Err(error) => return MemoryController::Unknown(format!("/proc/self/mountinfo: {error}")),
    };
    match hierarchy(&mounts) {
        Hierarchy::Unified(mount) => match Mount::discover() {
            Ok(_) => MemoryController::V2(mount.point),
            Err(_) => MemoryController::Off(mount.point),
        },
        Hierarchy::MemoryOnV1 { point } => {
            let v2 = mounts.into_iter().find(|mount| mount.v2).map(|mount| mount.point);
            MemoryController::V1 { point, v2 }
        }
        Hierarchy::NotMounted => MemoryController::NotMounted,
    }
}

fn is_read_only(point: &Path) -> bool {
    statvfs(point).is_ok_and(|found| found.flags().contains(FsFlags::ST_RDONLY))
}

fn psi() -> Psi {
    match bytes("/proc/pressure/memory") {
        Ok(_) => Psi::On,
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Psi::Off,
        Err(_) => Psi::Absent,
    }
}

/// The first cgroup below the root that has memory files.
fn with_memory_files(point: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(point).ok()?.flatten().take(FOLDERS_MAX).map(|entry| entry.path());
    folders.into_iter().find(|folder| folder.join("memory.current").exists())
}

fn peak_file(folder: &Path) -> PeakFile {
    match fs::metadata(folder.join("memory.peak")) {
        Ok(file) if file.permissions().mode() & 0o200 != 0 => PeakFile::Resettable,
        Ok(_) => PeakFile::ReadOnly,
        Err(_) => PeakFile::Absent,
    }
}

fn swap(meminfo: &str) -> Option<(Bytes, Bytes)> {
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        let number: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(Bytes::new(number.saturating_mul(1024)))
    };
    Some((kib("SwapTotal:")?, kib("SwapFree:")?))
}

fn bytes(path: &str) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(text)
}

fn text(path: &str) -> Option<String> {
    bytes(path).ok().map(|text| String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        let check = |text: &str, numbers| assert_eq!(Release::parse(text).numbers, numbers, "{text}");
        check("6.12.117+deb12-cloud-amd64\n", (6, 12));
        check("7.3.4+deb13", (7, 3));
        check("6.1", (6, 1));
        check("", (0, 0));
        check("x.y", (0, 0));
        check("99999999999.1", (0, 1));
        for (text, grammar) in [
            ("6.18.15+deb13", Grammar::Loose),
            ("7.3.4", Grammar::Strict),
            ("7.10", Grammar::Strict),
            ("", Grammar::Loose),
        ] {
            assert_eq!(Release::parse(text).limit_grammar(), grammar, "{text}");
        }
    }

    #[test]
    fn capabilities() {
        let status = "Name:\tx\nUid:\t1000\t0\t0\t0\nCapInh:\t0000000000000000\nCapEff:\t0000000000200002\n";
        let found = Capabilities::parse(status);
        assert_eq!((found.euid, found.has(21), found.has(1), found.has(0)), (0, true, true, false));
        assert_eq!(Capabilities::parse("").euid, u32::MAX);
    }

    #[test]
    fn swap_of_meminfo() {
        assert_eq!(
            swap("MemTotal: 1 kB\nSwapTotal:       2048 kB\nSwapFree:        1024 kB\n"),
            Some((Bytes::from_mib(2), Bytes::from_mib(1)))
        );
        assert_eq!(swap("SwapTotal: x kB\n"), None);
    }

    #[test]
    fn this_node_can_be_looked_at() {
        let facts = Facts::gather();
        assert_ne!(facts.release.numbers, (0, 0));
        assert_ne!(facts.memory, MemoryController::Unknown(String::new()));
        assert!(facts.swap.is_some());
    }
}
