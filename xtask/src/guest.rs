//! The usual guest: our programs, a shell, a job.

use crate::build::{self, Profile};
use crate::kernels::Unpacked;
use crate::setup;
use crate::vm::{Ended, Guest};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything that a guest needs, made once for any number of boots.
pub(crate) struct Kit {
    /// Where the programs were built.
    folder: PathBuf,
    /// Those that go into `/bin`.
    programs: &'static [&'static str],
    busybox: PathBuf,
}

/// What differs from boot to boot.
pub(crate) struct Boot {
    pub(crate) job: Vec<String>,
    pub(crate) files: Vec<(PathBuf, String)>,
    pub(crate) memory_mib: u32,
    pub(crate) time_out: Duration,
    pub(crate) icount: bool,
    pub(crate) debian: Option<PathBuf>,
    /// Further disks, which are not written to.
    pub(crate) disks: Vec<PathBuf>,
}

impl Boot {
    /// A boot with the usual memory.
    pub(crate) fn new(job: &[&str]) -> Self {
        Self {
            job: job.iter().map(|word| (*word).to_owned()).collect(),
            files: Vec::new(),
            memory_mib: 2048,
            time_out: Duration::from_mins(20),
            icount: false,
            debian: None,
            disks: Vec::new(),
        }
    }
}

impl Kit {
    /// Sets up this machine and builds `programs`, of [`build::PROGRAMS`], for the guest's `/bin`.
    pub(crate) fn ready(programs: &'static [&'static str]) -> Result<Self> {
        Self::built(programs, Profile::Guest)
    }

    /// The same, optimised: what is measured is what is shipped.
    pub(crate) fn optimised(programs: &'static [&'static str]) -> Result<Self> {
        Self::built(programs, Profile::Release)
    }

    fn built(programs: &'static [&'static str], profile: Profile) -> Result<Self> {
        setup::build()?;
        build::kernel_programs()?;
        Self::with(programs, profile)
    }

    /// For a guest with a shell and nothing of ours.
    pub(crate) fn bare() -> Result<Self> {
        Self::with(&[], Profile::Guest)
    }

    fn with(programs: &'static [&'static str], profile: Profile) -> Result<Self> {
        setup::guest()?;
        let busybox = setup::busybox()?;
        let with_init: Vec<_> = programs.iter().copied().chain([build::INIT]).collect();
        Ok(Self { folder: build::guest_programs(&with_init, profile)?, programs, busybox })
    }

    /// Where one of its programs was built.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Boots once, passing lines of the job to `line`.
    pub(crate) fn boot(&self, kernel: &Unpacked, boot: Boot, line: impl FnMut(&str)) -> Result<Ended> {
        let init = self.folder.join(build::INIT);
        self.guest(kernel, &init, boot).boot(line)
    }

    /// Boots once, with this command's own standard input and output as the job's.
    pub(crate) fn boot_on_terminal(&self, kernel: &Unpacked, boot: Boot) -> Result<Ended> {
        let init = self.folder.join(build::INIT);
        self.guest(kernel, &init, boot).boot_on_terminal()
    }

    fn guest<'a>(&self, kernel: &'a Unpacked, init: &'a Path, boot: Boot) -> Guest<'a> {
        let mut files = boot.files;
        files.extend(self.programs.iter().map(|name| (self.program(name), format!("/bin/{name}"))));
        files.push((self.busybox.clone(), "/bin/busybox".into()));
        Guest {
            kernel,
            init,
            files,
            job: boot.job,
            memory_mib: boot.memory_mib,
            time_out: boot.time_out,
            icount: boot.icount,
            debian: boot.debian,
            disks: boot.disks,
        }
    }
}
