//! Settles what killed runs left.

use super::{
    ActuateError, StateDir,
    holder::who_has_open,
    journal::Journal,
    lease::Lease,
    limit_fd::LimitFd,
    overlap::overlap,
    record::{Header, HeaderError, Record, records},
    settle::{Ours, Settled, settle},
    state_dir::{JOURNAL_COUNT_MAX, JournalFile, boot_id},
};
use crate::cgroup::{Cgroup, Mount, shown};
use enforcer_gate::{CgroupId, Limit, LimitFile};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// One unfinished run and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Its journal.
    pub journal: PathBuf,
    /// Its cgroup, below the mount; empty where the journal could not be read.
    pub cgroup: PathBuf,
    /// The cgroup's id.
    pub id: CgroupId,
    /// The process that ran it; zero where the journal could not be read.
    pub pid: u32,
    /// What was done.
    pub result: RecoveredRun,
}

/// What became of an unfinished run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveredRun {
    /// Its process lives: left alone.
    Running,
    /// Its process has died, and its restorer has the journal yet: it is about to put everything back, or is stopped.
    Restorer {
        /// The restorer.
        pid: u32,
    },
    /// Every file was looked at; the journal is closed unless one of them failed.
    Files(Vec<RecoveredFile>),
    /// The machine was started again since: limits of that boot are gone with it.
    OtherBoot,
    /// The cgroup was removed, or another one has its path.
    Gone,
    /// The journal can't be read; it was moved aside, to this path.
    Unreadable {
        /// Why.
        why: String,
        /// Where it is now.
        moved_to: PathBuf,
    },
    /// Another version of enforcer wrote the journal, in a format that this one does not know: left alone, whoever holds it.
    OtherVersion {
        /// Why it can't be read here.
        why: String,
    },
    /// Something failed; the journal stays for another try.
    Failed(String),
}

/// One limit file of an unfinished run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredFile {
    /// Which.
    pub file: LimitFile,
    /// What it held before the run.
    pub found: Limit,
    /// What the run last wrote, or was about to.
    pub ours: Limit,
    /// What was done.
    pub result: RecoveredValue,
}

/// What became of a limit file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveredValue {
    /// It held our value, and holds what was found again.
    Restored,
    /// It held what was found already.
    AsFound,
    /// Somebody else has written it since; theirs stays.
    Superseded {
        /// What it holds.
        by: Limit,
    },
    /// It could not be read or written.
    Failed {
        /// `errno`.
        errno: i32,
    },
}

/// Settles every run in `state` that neither ended properly nor still goes on. Restores only where boot and cgroup are
/// the same and the file still holds exactly the value that the run wrote, and restoring only raises: a blind restore
/// would be an unsafe write itself.
///
/// A state directory that can't be read comes back as one entry with [`RecoveredRun::Failed`].
pub fn recover(state: &StateDir) -> Vec<Recovered> {
    recover_where(state, &Mount::discover().map(Arc::new).map_err(|error| error.to_string()))
}

/// As [`recover`], of one journal, if its run is in the way of `on`, or `on` is in its way.
pub(super) fn recover_overlapping(file: JournalFile, on: &Cgroup) -> Option<Recovered> {
    let mount = Ok(Arc::clone(on.mount()));
    settle_file(file, &mount, |header| overlap(&header.path, on.path()) || header.cgroup == on.id())
}

fn recover_where(state: &StateDir, mount: &Result<Arc<Mount>, String>) -> Vec<Recovered> {
    let list = state.lock().and_then(|lock| Ok((lock, state.journals()?)));
    let (_lock, (paths, more)) = match list {
        Ok(list) => list,
        Err(error) => return vec![unknown(state.path(), RecoveredRun::Failed(error.to_string()))],
    };
    // One at a time: thousands of open files are more than a process may have.
    let mut all: Vec<_> = paths
        .into_iter()
        .filter_map(|path| match JournalFile::read(path.clone()) {
            Ok(file) => settle_file(file?, mount, |_| true),
            Err(error) => Some(unknown(&path, RecoveredRun::Failed(error.to_string()))),
        })
        .collect();
    if more {
        let why = format!("more than {JOURNAL_COUNT_MAX} journals: enforcer recover again settles the next");
        all.push(unknown(state.path(), RecoveredRun::Failed(why)));
    }
    all
}

/// What can't be told whose it is.
fn unknown(journal: &Path, result: RecoveredRun) -> Recovered {
    Recovered { journal: journal.into(), cgroup: PathBuf::new(), id: CgroupId::ZERO, pid: 0, result }
}

/// `None` where there is nothing to say about it.
fn settle_file(
    file: JournalFile,
    mount: &Result<Arc<Mount>, String>,
    wanted: impl Fn(&Header) -> bool,
) -> Option<Recovered> {
    let journal = file.path.clone();
    match Header::decode(&file.bytes) {
        Ok((header, seed)) if wanted(&header) => {
            let (cgroup, id, pid) = (header.path.clone(), header.cgroup, header.pid);
            let result = match settle_run(file, &header, seed, mount) {
                Ok(result) => result?,
                Err(error) => RecoveredRun::Failed(error.to_string()),
            };
            Some(Recovered { journal, cgroup, id, pid, result })
        }
        Ok(_) => None,
        // It may live, and only its own version knows what it lowered.
        Err(why @ HeaderError::Version(_)) => {
            Some(unknown(&journal, RecoveredRun::OtherVersion { why: why.to_string() }))
        }
        // A living owner wrote it whole before it got its name, so nobody lives who could mend it.
        Err(why @ (HeaderError::Foreign | HeaderError::Damaged)) => {
            Some(unknown(&journal, move_aside(&journal, &why.to_string())))
        }
    }
}

/// Which process has a run's journal: the one that began it, as long as it lives, else its restorer. Of those that can't be
/// seen, in another pid namespace, the journal's word counts.
pub(super) fn at_it(began: u32, journal: &Path) -> u32 {
    if began == std::process::id() {
        return began;
    }
    let found = who_has_open(journal);
    if found.contains(&began) { began } else { found.first().copied().unwrap_or(began) }
}

fn move_aside(journal: &Path, why: &str) -> RecoveredRun {
    let moved_to = journal.with_extension("unreadable");
    match std::fs::rename(journal, &moved_to) {
        Ok(()) => RecoveredRun::Unreadable { why: why.into(), moved_to },
        Err(error) => RecoveredRun::Failed(format!("{why}, and it can't be moved aside: {error}")),
    }
}

/// `None` where the run had ended properly after all.
fn settle_run(
    file: JournalFile,
    header: &Header,
    seed: u32,
    mount: &Result<Arc<Mount>, String>,
) -> Result<Option<RecoveredRun>, ActuateError> {
    let Some(lock) = file.lock else {
        return Ok(Some(match at_it(header.pid, &file.path) {
            pid if pid == header.pid => RecoveredRun::Running,
            pid => RecoveredRun::Restorer { pid },
        }));
    };
    let entries = records(&file.bytes, seed);
    // At most 256 of them.
    let next = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    let journal = Journal::resume(file.path, lock, seed, next);
    let ended = entries.contains(&Record::Finished);
    let left = unsettled(&entries);
    if ended || left.is_empty() {
        journal.close()?;
        return Ok(None);
    }
    if header.boot_id != boot_id()? {
        journal.close()?;
        return Ok(Some(RecoveredRun::OtherBoot));
    }
    let mount = match mount {
        Ok(mount) => mount,
        Err(why) => return Ok(Some(RecoveredRun::Failed(why.clone()))),
    };
    let cgroup = match Cgroup::open_in(mount, &header.path) {
        Ok(cgroup) if cgroup.id() == header.cgroup => cgroup,
        Ok(_) => {
            journal.close()?;
            return Ok(Some(RecoveredRun::Gone));
        }
        Err(error) if error.is_gone() => {
            journal.close()?;
            return Ok(Some(RecoveredRun::Gone));
        }
        Err(error) => return Err(error.into()),
    };
    // A run from another state directory may be at it.
    let _lease = Lease::take(&cgroup)?;
    finish(journal, &cgroup, left).map(Some)
}

fn finish(journal: Journal, cgroup: &Cgroup, left: Vec<Unsettled>) -> Result<RecoveredRun, ActuateError> {
    let mut files = Vec::new();
    for entry in left {
        let opened = LimitFd::open(cgroup, entry.file);
        let settled = match opened {
            Ok(fd) => settle(&fd, entry.values(), entry.found),
            Err(error) if error.is_gone() => Settled::Gone,
            Err(error) => return Err(error.into()),
        };
        let result = match settled {
            Settled::Restored => RecoveredValue::Restored,
            Settled::AsFound => RecoveredValue::AsFound,
            Settled::Superseded(by) => RecoveredValue::Superseded { by },
            Settled::Failed(errno) => RecoveredValue::Failed { errno: errno as i32 },
            Settled::Gone => {
                journal.close()?;
                return Ok(RecoveredRun::Gone);
            }
        };
        files.push(RecoveredFile { file: entry.file, found: entry.found, ours: entry.ours, result });
    }
    if !files.iter().any(|file| matches!(file.result, RecoveredValue::Failed { .. })) {
        journal.close()?;
    }
    Ok(RecoveredRun::Files(files))
}

/// A file that a run lowered, or was about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unsettled {
    file: LimitFile,
    found: Limit,
    before: Limit,
    ours: Limit,
}

impl Unsettled {
    fn values(self) -> Ours {
        // The write may not have happened: then the file holds what it held before, which is ours or as found.
        let written = Some(self.before).filter(|before| *before != self.found);
        Ours { written, pending: Some(self.ours) }
    }
}

/// `memory.max` first: it can kill, `memory.high` only delays.
fn unsettled(entries: &[Record]) -> Vec<Unsettled> {
    let mut left = [None, None];
    for entry in entries {
        match *entry {
            Record::Intent { file, found, before, ours } => {
                left[slot(file)] = Some(Unsettled { file, found, before, ours });
            }
            Record::Settled { file, .. } => left[slot(file)] = None,
            Record::Finished => left = [None, None],
        }
    }
    left.into_iter().flatten().collect()
}

const fn slot(file: LimitFile) -> usize {
    match file {
        LimitFile::Max => 0,
        LimitFile::High => 1,
    }
}

impl Recovered {
    /// One line for people.
    pub fn describe(&self) -> String {
        let what = match &self.result {
            RecoveredRun::Running => format!("still in progress by pid {}", self.pid),
            RecoveredRun::Restorer { pid } => format!(
                "pid {} has died, and its restorer, pid {pid}, has not put everything back yet: where that is stopped, kill \
                 -CONT {pid} lets it go on; or kill -KILL {pid}, then enforcer recover again",
                self.pid
            ),
            RecoveredRun::OtherBoot => "from before the last boot: closed".into(),
            RecoveredRun::Gone => "the cgroup is gone: closed".into(),
            RecoveredRun::Unreadable { why, moved_to } => format!(
                "{why}: moved to {}; whatever it had lowered stays so: look at memory.high and memory.max of what was \
                 shrunk",
                shown(moved_to)
            ),
            RecoveredRun::OtherVersion { why } => format!(
                "{why}: settle it with enforcer recover of that version; after a reboot the file can be removed"
            ),
            RecoveredRun::Failed(why) => why.clone(),
            RecoveredRun::Files(files) => {
                let each: Vec<_> = files.iter().map(RecoveredFile::describe).collect();
                each.join("; ")
            }
        };
        let of = if self.cgroup.as_os_str().is_empty() { &self.journal } else { &self.cgroup };
        format!("{}: {what}", shown(of))
    }

    /// Whether somebody has to look again.
    pub fn is_open(&self) -> bool {
        match &self.result {
            RecoveredRun::Failed(_) | RecoveredRun::OtherVersion { .. } | RecoveredRun::Restorer { .. } => {
                true
            }
            RecoveredRun::Files(files) => {
                files.iter().any(|file| matches!(file.result, RecoveredValue::Failed { .. }))
            }
            RecoveredRun::Running
            | RecoveredRun::OtherBoot
            | RecoveredRun::Gone
            | RecoveredRun::Unreadable { .. } => false,
        }
    }
}

impl RecoveredFile {
    fn describe(&self) -> String {
        let name = self.file.name();
        match &self.result {
            RecoveredValue::Restored => format!("{name} {} restored to {}", self.ours, self.found),
            RecoveredValue::AsFound => format!("{name} is {} as found", self.found),
            RecoveredValue::Superseded { by } => format!("{name} superseded by {by}, left alone"),
            RecoveredValue::Failed { errno } => {
                format!("{name} can't be put back: {}", nix::errno::Errno::from_raw(*errno).desc())
            }
        }
    }
}

#[cfg(test)]
mod tests;
