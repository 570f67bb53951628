//! The folder of the journals: opened, and settled, on a thread of its own, for its disk may be full or hang.

use crate::{
    actuate::{ActuateError, Recovered, RecoveredRun, StateDir, recover},
    admin::model::PartState,
    cgroup::shown,
};
use std::path::{Path, PathBuf};
use tokio::task::JoinSet;

/// What came of it; `Ok` says what earlier runs had left, where that was settled, each once.
pub(super) type Opened = Result<Vec<Recovered>, ActuateError>;

/// The same with the folder, and nothing where it was only opened.
type Done = Result<(StateDir, Option<Vec<Recovered>>), ActuateError>;

/// The folder. Nothing is lowered before it is open and settled.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    dir: Option<StateDir>,
    is_settled: bool,
    /// Why it is not open.
    trouble: Option<String>,
    /// What could not be settled.
    left: Option<String>,
    tasks: JoinSet<Done>,
}

impl State {
    /// Begins to open it, and with `settle` to settle what earlier runs left.
    pub(super) fn open(path: &Path, settle: bool) -> Self {
        let (trouble, left) = (None, None);
        let mut state =
            Self { path: path.into(), dir: None, is_settled: false, trouble, left, tasks: JoinSet::new() };
        state.begin(settle);
        state
    }

    /// The folder, once it is open and settled.
    pub(super) fn settled(&self) -> Option<&StateDir> {
        self.dir.as_ref().filter(|_| self.is_settled)
    }

    /// Whether it is being opened or settled.
    pub(super) fn is_busy(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// How far it keeps limits from being lowered.
    pub(super) fn part(&self) -> (PartState, String) {
        let path = shown(&self.path);
        match (&self.trouble, &self.left) {
            _ if self.is_busy() => (PartState::Starting, format!("{path} does not answer yet")),
            (Some(why), _) => (PartState::Failed, why.clone()),
            (None, Some(left)) => (PartState::Degraded, left.clone()),
            (None, None) => (PartState::Ready, String::new()),
        }
    }

    /// Tries again, unless all of it is done or under way.
    pub(super) fn begin(&mut self, settle: bool) {
        let is_done = self.dir.is_some() && (self.is_settled || !settle) && (self.left.is_none() || !settle);
        if self.is_busy() || is_done {
            return;
        }
        let path = self.path.clone();
        self.tasks.spawn_blocking(move || {
            let dir = StateDir::open(&path)?;
            // A cgroup's file may keep whoever writes it waiting as well.
            let settled = settle.then(|| recover(&dir));
            Ok((dir, settled))
        });
    }

    /// What came of it; `None` where nothing is under way. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Opened> {
        loop {
            // One that panicked is begun again.
            let Ok(done) = self.tasks.join_next().await? else { continue };
            self.trouble = done.as_ref().err().map(ToString::to_string);
            return Some(done.map(|(dir, settled)| {
                self.dir = Some(dir);
                let is_again = self.is_settled;
                self.is_settled |= settled.is_some();
                let mut settled = settled.unwrap_or_default();
                let left = settled.iter().find(|run| run.is_open()).map(Recovered::describe);
                if is_again {
                    settled.retain(|run| !run.is_open() && run.result != RecoveredRun::Running);
                }
                self.left = left;
                settled
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_settled_once_and_only_where_that_is_wanted() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut state = State::open(&folder.path().join("state"), false);
        assert!(state.is_busy() && state.settled().is_none());
        assert!(state.next().await.expect("it ends").expect("is open").is_empty());
        assert!(state.next().await.is_none() && state.settled().is_none(), "nobody asked for it");
        state.begin(false);
        assert!(!state.is_busy());
        state.begin(true);
        assert!(state.next().await.expect("it ends").expect("is settled").is_empty());
        assert!(state.settled().is_some());
        state.begin(true);
        assert!(!state.is_busy());
    }

    #[tokio::test]
    async fn what_a_newer_version_left_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        StateDir::open(folder.path()).expect("is open");
        let newer = folder.path().join("0000000000000001.journal");
        std::fs::write(&newer, b"enfjrnl\0\xff\xff\xff\xff").expect("write it");
        let mut state = State::open(folder.path(), true);
        assert_eq!(state.next().await.expect("it ends").expect("is open").len(), 1);
        let (part, why) = state.part();
        assert!(part == PartState::Degraded && why.contains("enforcer recover of that version"), "{why}");
        state.begin(true);
        assert!(state.next().await.expect("it ends").expect("is open").is_empty(), "it was told");
        assert_eq!(state.part(), (part, why));
        std::fs::remove_file(&newer).expect("remove it");
        state.begin(true);
        assert!(state.next().await.expect("it ends").is_ok());
        assert_eq!(state.part(), (PartState::Ready, String::new()));
    }

    #[tokio::test]
    async fn one_that_can_not_be_made_is_tried_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        std::fs::write(&path, "in the way").expect("write it");
        let mut state = State::open(&path, true);
        assert_eq!(state.part().0, PartState::Starting);
        assert!(matches!(state.next().await, Some(Err(ActuateError::StateDir { .. }))));
        assert_eq!(state.part().0, PartState::Failed);
        std::fs::remove_file(&path).expect("remove it");
        state.begin(true);
        assert!(matches!(state.next().await, Some(Ok(_))) && state.settled().is_some());
        assert_eq!(state.part(), (PartState::Ready, String::new()));
    }
}
