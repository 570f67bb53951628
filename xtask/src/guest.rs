//! The usual guest: our programs, a shell, a job.

use crate::kernels::{self, Unpacked};
use crate::vm::{Ended, Guest};
use crate::{build, setup};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything that a guest needs, made once for any number of boots.
pub(crate) struct Kit {
    programs: PathBuf,
    busybox: PathBuf,
}

/// What differs from boot to boot.
pub(crate) struct Boot {
    pub(crate) job: Vec<String>,
    pub(crate) files: Vec<(PathBuf, String)>,
    pub(crate) memory_mib: u32,
    pub(crate) time_out: Duration,
    pub(crate) icount: bool,
}

impl Boot {
    /// A boot with the usual memory.
    pub(crate) fn new(job: &[&str]) -> Self {
        Self {
            job: job.iter().map(|word| (*word).to_owned()).collect(),
            files: Vec::new(),
            memory_mib: 2048,
            time_out: Duration::from_secs(1200),
            icount: false,
        }
    }
}

impl Kit {
    /// Sets up this machine and builds everything.
    pub(crate) fn ready() -> Result<Self> {
        setup::build()?;
        setup::guest()?;
        Ok(Self { programs: build::guest_programs()?, busybox: setup::busybox()? })
    }

    /// A program as built for the guest.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// The kernel called `name`.
    pub(crate) fn kernel(&self, name: &str) -> Result<Unpacked> {
        kernels::find(name)?.unpacked()
    }

    /// Boots once, passing lines of the job to `line`.
    pub(crate) fn boot(&self, kernel: &Unpacked, boot: Boot, line: impl FnMut(&str)) -> Result<Ended> {
        let mut files = boot.files;
        for program in build::PROGRAMS {
            files.push((self.program(program), format!("/bin/{program}")));
        }
        files.push((self.busybox.clone(), "/bin/busybox".into()));
        let init = self.program(build::INIT);
        let guest = Guest {
            kernel,
            init: Path::new(&init),
            files,
            job: boot.job,
            memory_mib: boot.memory_mib,
            time_out: boot.time_out,
            icount: boot.icount,
        };
        guest.boot(line)
    }
}
