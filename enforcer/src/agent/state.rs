//! The folder of the journals: opened, and settled, on a thread of its own, for its disk may be full or hang.

use crate::{
    actuate::{ActuateError, Recovered, RecoveredRun, StateDir, recover},
    admin::model::PartState,
    cgroup::shown,
};
use std::path::{Path, PathBuf};
use tokio::task::JoinSet;

/// What came of it; `Ok` says what earlier runs had left, each once.
pub(super) type Opened = Result<Vec<Recovered>, ActuateError>;

/// The same with the folder.
type Done = Result<(StateDir, Vec<Recovered>), ActuateError>;

/// The folder. Nothing is lowered before it is open and settled.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    dir: Option<StateDir>,
    /// Why it is not open, and what of that was told.
    trouble: Option<String>,
    told: Option<String>,
    /// What could not be settled.
    left: Option<String>,
    tasks: JoinSet<Done>,
}

impl State {
    /// Begins to open it and to settle what earlier runs left, which only lifts brakes.
    pub(super) fn open(path: &Path) -> Self {
        let mut state = Self {
            path: path.into(),
            dir: None,
            trouble: None,
            told: None,
            left: None,
            tasks: JoinSet::new(),
        };
        state.begin();
        state
    }

    /// The folder, once it is open and settled.
    pub(super) fn settled(&self) -> Option<&StateDir> {
        self.dir.as_ref()
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

    /// Why it is not open, where that was not told before.
    pub(super) fn news(&mut self) -> Option<String> {
        let news = self.trouble.clone().filter(|_| self.trouble != self.told);
        self.told.clone_from(&self.trouble);
        news
    }

    /// Tries again, unless all of it is done or under way.
    pub(super) fn begin(&mut self) {
        if self.is_busy() || (self.dir.is_some() && self.left.is_none()) {
            return;
        }
        let path = self.path.clone();
        self.tasks.spawn_blocking(move || {
            let dir = StateDir::open(&path)?;
            // A cgroup's file may keep whoever writes it waiting as well.
            let settled = recover(&dir);
            Ok((dir, settled))
        });
    }

    /// What came of it; `None` where nothing is under way. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Opened> {
        loop {
            let Ok(done) = self.tasks.join_next().await? else {
                self.trouble = Some("settling what earlier runs left panicked; it is tried again".into());
                continue;
            };
            self.trouble = done.as_ref().err().map(ToString::to_string);
            return Some(done.map(|(dir, mut settled)| {
                let is_again = self.dir.replace(dir).is_some();
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
    async fn it_is_settled_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut state = State::open(&folder.path().join("state"));
        assert!(state.is_busy() && state.settled().is_none());
        assert!(state.next().await.expect("it ends").expect("is settled").is_empty());
        assert!(state.settled().is_some());
        state.begin();
        assert!(!state.is_busy() && state.next().await.is_none());
    }

    #[tokio::test]
    async fn what_a_newer_version_left_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        StateDir::open(folder.path()).expect("is open");
        let newer = folder.path().join("0000000000000001.journal");
        std::fs::write(&newer, b"enfjrnl\0\xff\xff\xff\xff").expect("write it");
        let mut state = State::open(folder.path());
        assert_eq!(state.next().await.expect("it ends").expect("is open").len(), 1);
        let (part, why) = state.part();
        assert!(part == PartState::Degraded && why.contains("enforcer recover of that version"), "{why}");
        state.begin();
        assert!(state.next().await.expect("it ends").expect("is open").is_empty(), "it was told");
        assert_eq!(state.part(), (part, why));
        std::fs::remove_file(&newer).expect("remove it");
        state.begin();
        assert!(state.next().await.expect("it ends").is_ok());
        assert_eq!(state.part(), (PartState::Ready, String::new()));
    }

    #[tokio::test]
    async fn one_that_can_not_be_made_is_tried_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        std::fs::write(&path, "in the way").expect("write it");
        let mut state = State::open(&path);
        assert_eq!(state.part().0, PartState::Starting);
        assert!(matches!(state.next().await, Some(Err(ActuateError::StateDir { .. }))));
        assert_eq!(state.part().0, PartState::Failed);
        assert!(state.news().is_some() && state.news().is_none(), "told once");
        std::fs::remove_file(&path).expect("remove it");
        state.begin();
        assert!(matches!(state.next().await, Some(Ok(_))) && state.settled().is_some());
        assert_eq!(state.part(), (PartState::Ready, String::new()));
    }
}
