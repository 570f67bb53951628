//! How a session starts.

use super::{Session, SessionOptions, Target};
use crate::{
    actuate::{
        ActuateError, StateDir, WriteMethod,
        above::Above,
        handle::Raiser,
        interrupt::Interrupt,
        journal::Journal,
        lease::Lease,
        limit_fd::{LimitFd, NumberFd},
        nonblock::write_method,
        overlap::overlap,
        pending::usable,
        record::Header,
        recover::{at_it, recover_overlapping},
        restorer::{Restorer, Spawn},
        shared::Shared,
        state_dir::{JOURNAL_COUNT_MAX, JournalFile, boot_id},
        urgent::lock_memory,
    },
    cgroup::{Cgroup, CgroupError, membership},
};
use enforcer_gate::LimitFile;
use nix::fcntl::OFlag;
use std::{os::fd::OwnedFd, path::Path, sync::Arc};

/// What [`Session::begin`] makes after the journal.
struct Ready {
    raiser: Raiser,
    restorer: Restorer,
    shared: Arc<Shared>,
    interrupt: Interrupt,
    method: WriteMethod,
    high: Target,
    max: Target,
    above: Option<Above>,
    current: NumberFd,
    reclaim: OwnedFd,
}

impl Session {
    /// Takes the cgroup, starts the restorer and the raising thread, and opens everything. Changes no limit.
    ///
    /// A killed run's leftover that is in the way is settled first, as [`recover`](crate::actuate::recover) does. Fails with
    /// [`ActuateError::InProgress`] where a living one is, and with [`ActuateError::StateDir`] where no journal can be kept.
    pub fn begin(cgroup: &Cgroup, state: &StateDir, options: &SessionOptions) -> Result<Self, ActuateError> {
        if cgroup.file_optional("memory.max")?.is_none() {
            return Err(cgroup.why_no_memory().into());
        }
        let mut notes = Vec::new();
        let (journal, lease) = claim(cgroup, state, &mut notes)?;
        match Self::prepare(cgroup, &journal, &lease, options, &mut notes) {
            Ok(ready) => Self {
                cgroup: cgroup.clone(),
                raiser: ready.raiser,
                restorer: ready.restorer,
                journal,
                _lease: lease,
                shared: ready.shared,
                interrupt: ready.interrupt,
                method: ready.method,
                high: ready.high,
                max: ready.max,
                above: ready.above,
                current: ready.current,
                reclaim: ready.reclaim,
                notes,
            }
            .foretold(options.foretold.as_ref()),
            Err(error) => {
                // Nothing was lowered; a file that stays says so, and goes with the next begin.
                let _ = journal.close();
                Err(error)
            }
        }
    }

    fn prepare(
        cgroup: &Cgroup,
        journal: &Journal,
        lease: &Lease,
        options: &SessionOptions,
        notes: &mut Vec<String>,
    ) -> Result<Ready, ActuateError> {
        let open = |file| -> Result<Target, ActuateError> {
            let fd = LimitFd::open(cgroup, file)?;
            let io = |errno| CgroupError::io(cgroup.absolute().join(file.name()), "read", errno);
            let found = fd.read().map_err(io)?;
            Ok(Target { fd, found })
        };
        // After the claim: settling a leftover changes what is found.
        let (high, max) = (open(LimitFile::High)?, open(LimitFile::Max)?);
        let current = NumberFd::open(cgroup, "memory.current")?;
        let reclaim = cgroup.open_file("memory.reclaim", OFlag::O_WRONLY)?;
        let method = options.method.unwrap_or_else(|| write_method(cgroup.mount()));
        if method == WriteMethod::PendingSignal {
            usable().map_err(|errno| ActuateError::NoSafeWrite { source: errno.into() })?;
        }
        if let Err(errno) = lock_memory() {
            let why = errno.desc();
            notes.push(format!("memory is not locked ({why}): a restore may have to wait for a disk"));
        }
        let interrupt = Interrupt::install()?;
        let shared = Arc::new(Shared::new());
        let inside = is_inside(cgroup);
        if inside {
            notes.push("this process is in the cgroup itself: its brake slows this process as well".into());
        }
        let higher = options.foretold.as_ref().and_then(|foretold| foretold.above.as_ref());
        let above = higher.map(Above::open).transpose()?;
        let again = || above.as_ref().zip(higher).map(|(above, cgroup)| above.again(cgroup)).transpose();
        let spawn = Spawn { cgroup, above: again()?, journal, lease, deadline: options.deadline };
        let (restorer, missing) = Restorer::spawn(&spawn)?;
        for (is_missing, what) in [
            (missing.not_locked, "the restorer's memory is not locked"),
            (missing.not_oom_exempt, "the restorer is not exempt from the OOM killer"),
            (
                missing.not_moved,
                "the restorer could not leave this process's cgroup: who kills that kills both",
            ),
        ] {
            if is_missing {
                notes.push(what.into());
            }
        }
        let raiser = Raiser::start(cgroup, again()?, Arc::clone(&shared), interrupt)?;
        Ok(Ready { raiser, restorer, shared, interrupt, method, high, max, above, current, reclaim })
    }
}

/// Makes sure that nobody else works on the cgroup, settles what is in the way, and leaves a locked journal.
fn claim(
    cgroup: &Cgroup,
    state: &StateDir,
    notes: &mut Vec<String>,
) -> Result<(Journal, Lease), ActuateError> {
    let _lock = state.lock()?;
    let in_the_way = |header: &Header| overlap(&header.path, cgroup.path()) || header.cgroup == cgroup.id();
    let (paths, more) = state.journals()?;
    if more {
        return Err(ActuateError::TooManyJournals {
            path: state.path().into(),
            count_max: JOURNAL_COUNT_MAX,
        });
    }
    // Nothing is settled before it is sure that nobody is in the way.
    for path in &paths {
        if let Some(JournalFile { bytes, lock: None, path: journal, .. }) = JournalFile::read(path.clone())?
            && let Ok((header, _)) = Header::decode(&bytes)
            && in_the_way(&header)
        {
            let pid = at_it(header.pid, &journal);
            return Err(ActuateError::InProgress { pid: Some(pid), path: header.path });
        }
    }
    for path in paths {
        let Some(file) = JournalFile::read(path)? else { continue };
        let Some(settled) = recover_overlapping(file, cgroup) else { continue };
        if settled.is_open() {
            let named =
                if settled.cgroup.as_os_str().is_empty() { &settled.journal } else { &settled.cgroup };
            return Err(ActuateError::Unsettled { path: named.clone(), why: settled.describe() });
        }
        notes.push(format!("settled an earlier run: {}", settled.describe()));
    }
    // After the settling, which takes what it settles for itself.
    let lease = Lease::take(cgroup)?;
    let header = Header {
        pid: std::process::id(),
        boot_id: boot_id()?,
        cgroup: cgroup.id(),
        path: cgroup.path().into(),
    };
    Ok((Journal::create(state, &header)?, lease))
}

/// Whether this process lives in the cgroup or below it.
fn is_inside(cgroup: &Cgroup) -> bool {
    // Names of cgroups need not be UTF-8.
    std::fs::read("/proc/self/cgroup").is_ok_and(|text| is_at_or_below(&text, cgroup.path()))
}

/// Whether `/proc/self/cgroup`, which is `text`, names `path` or something below it. Everything is below the root, which
/// nobody lowers.
fn is_at_or_below(text: &[u8], path: &Path) -> bool {
    !path.as_os_str().is_empty() && membership(text).is_some_and(|own| own.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::fixture::Fixture;
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    #[test]
    fn a_cgroup_is_found_whatever_its_name_is() {
        let text = b"1:name=systemd:/a\n0::/x\xff y/b\n";
        let below = |path: &[u8]| is_at_or_below(text, Path::new(OsStr::from_bytes(path)));
        assert!(below(b"x\xff y") && below(b"x\xff y/b"));
        assert!(!below(b"x") && !below(b"a") && !below(b"x\xff y/b/c") && !below(b""));
    }

    #[test]
    fn a_cgroup_without_limits_says_so_and_leaves_nothing() {
        let tree = Fixture::new();
        tree.cgroup("a");
        tree.remove("a/memory.max");
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let begun = Session::begin(&tree.open("a").unwrap(), &state, &SessionOptions::default());
        let error = begun.unwrap_err();
        assert!(matches!(error, ActuateError::Cgroup(CgroupError::NoMemoryFiles { .. })), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// A restorer that is another program ends at once or never says that it is ready: here the test runner, which takes
    /// the hidden argument for a filter that fits no test.
    #[test]
    fn a_program_that_does_not_serve_as_restorer_is_told_so() {
        let tree = Fixture::new();
        tree.cgroup("a");
        tree.write("a/memory.reclaim", "");
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let options = SessionOptions { method: Some(WriteMethod::NonBlocking), ..SessionOptions::default() };
        let error = Session::begin(&tree.open("a").unwrap(), &state, &options).unwrap_err().to_string();
        assert!(error.contains("run_restorer_if_asked"), "{error}");
        assert_eq!(state.journals().unwrap().0.len(), 0);
        assert_eq!(tree.read("a/memory.max"), "max\n");
    }
}
