//! What the agent itself takes. Reads `/proc/self`.

use enforcer_gate::{Bytes, Micros, PAGE_SIZE};
use nix::sys::{
    resource::{Resource, UsageWho, getrlimit, getrusage},
    time::{TimeVal, TimeValLike as _},
};
use std::{fs, io};

const STATM: &str = "/proc/self/statm";
const FDS: &str = "/proc/self/fd";

/// CPU time, memory and descriptors of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Own {
    /// CPU time, user and system, of all its threads, also those that have ended.
    pub cpu: Micros,
    /// What is resident.
    pub resident: Bytes,
    /// Descriptors that are open.
    pub fds: u64,
    /// Descriptors that may be open.
    pub fds_max: u64,
}

/// Why it is not known.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct OwnError {
    what: &'static str,
    source: io::Error,
}

impl Own {
    /// As it is now.
    pub fn read() -> Result<Self, OwnError> {
        let failed = |what| move |source: io::Error| OwnError { what, source };
        let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(|errno| failed("getrusage")(errno.into()))?;
        let (fds_max, _) =
            getrlimit(Resource::RLIMIT_NOFILE).map_err(|errno| failed("getrlimit")(errno.into()))?;
        let statm = fs::read_to_string(STATM).map_err(failed(STATM))?;
        let pages =
            resident(&statm).ok_or_else(|| failed(STATM)(io::Error::other("no number of resident pages")))?;
        let fds = fs::read_dir(FDS).map_err(failed(FDS))?.count();
        Ok(Self {
            cpu: micros(usage.user_time()).saturating_add(micros(usage.system_time())),
            resident: Bytes::new(pages.saturating_mul(PAGE_SIZE)),
            // The one that reads the folder is among them.
            fds: u64::try_from(fds).unwrap_or(u64::MAX).saturating_sub(1),
            fds_max,
        })
    }
}

fn micros(time: TimeVal) -> Micros {
    Micros::new(u64::try_from(time.num_microseconds()).unwrap_or(0))
}

/// The second number of `statm`, in pages.
fn resident(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_pages_are_the_second_number() {
        assert_eq!(resident("43212 1735 1290 2 0 900 0\n"), Some(1735));
        assert_eq!(resident("43212"), None);
        assert_eq!(resident("1 x"), None);
    }

    #[test]
    fn memory_that_is_touched_shows() {
        let before = Own::read().expect("is read");
        let held = vec![1_u8; 64 << 20];
        let after = Own::read().expect("is read");
        assert!(
            after.resident.saturating_sub(before.resident) >= Bytes::from_mib(32),
            "{before:?} {after:?}"
        );
        assert!(after.cpu > before.cpu);
        assert!((3..=after.fds_max).contains(&after.fds));
        drop(held);
    }
}
