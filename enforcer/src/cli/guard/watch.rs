//! The loop: tells and keeps what the guard says, and keeps the guard alive.

use super::held::Keeper;
use super::line::line;
use super::options::Stand;
use super::posts::{Post, standing, to_look_at};
use super::report;
use crate::cgroup::{Cgroup, Mount};
use crate::cli::{failure, output, screen::Screen};
use crate::guard::log::{Log, Stored, tell};
use crate::guard::{Guard, GuardError, GuardOptions, Reason};
use crate::probe::Judged;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Time between two beats: several fit into what makes the guard stale.
const BEAT: Duration = Duration::from_secs(1);

/// A guard's user space.
pub(super) struct Watch<'a> {
    pub(super) options: &'a Stand,
    pub(super) mount: &'a Mount,
    pub(super) screen: Screen,
    pub(super) log: Option<Log>,
    /// What is left to tell.
    pub(super) last: String,
    /// Verdicts that had no room in the kernel's buffer.
    pub(super) dropped: u64,
    /// It was armed.
    pub(super) stood: bool,
}

impl Watch<'_> {
    /// Until told to stop.
    pub(super) async fn run(&mut self, posts: Vec<Post>, armed: String) -> Result<(), GuardError> {
        let ended = self.stand(posts, armed).await;
        if let Some(log) = self.log.take()
            && self.stood
        {
            let why = match &ended {
                Ok(why) => (*why).to_owned(),
                Err(error) => failure::chain(error),
            };
            let not_kept = log.end(&why, self.dropped);
            self.last.push_str(&report::not_kept(not_kept, self.options.json.json));
        }
        ended.map(drop)
    }

    /// Says why it ended.
    async fn stand(&mut self, mut posts: Vec<Post>, armed: String) -> Result<&'static str, GuardError> {
        let wait = |error| GuardError::Probe(crate::probe::ProbeError::Wait(error));
        let as_json = self.options.json.json;
        output::loading(as_json);
        let mut guard = Guard::load(GuardOptions::default())?;
        // Not before: a signal ends the loading at once, and nothing is left of it.
        let mut interrupted = signal(SignalKind::interrupt()).map_err(wait)?;
        let mut ended = signal(SignalKind::terminate()).map_err(wait)?;
        if let Some(cgroup) = posts.iter().find_map(|post| to_look_at(&post.cgroup)) {
            guard.look_at(&cgroup)?;
        }
        for Post { cgroup, own, below, .. } in &posts {
            guard.cover(cgroup.id(), &self.options.cover(*own, *below))?;
        }
        guard.beat()?;
        self.stood = true;
        if let Some(log) = &mut self.log {
            log.begin(standing(self.options, &posts));
        }
        self.screen.show(armed);
        let mut beat = tokio::time::interval(BEAT);
        let mut keeper = Keeper::default();
        let stopped = loop {
            self.tell_news();
            tokio::select! {
                judged = guard.next() => {
                    let judged = judged?;
                    let line = self.keep(&judged);
                    self.screen.show(line);
                    keeper.after(&judged, self.mount);
                    if judged.reason == Reason::Blind {
                        break Err(GuardError::Blind { what: "a cgroup's counters can't be read".into() });
                    }
                }
                Some(told) = keeper.next(self.mount, as_json) => self.screen.show(told),
                _ = beat.tick() => {
                    guard.beat()?;
                    guard.sweep()?;
                    self.dropped = guard.dropped()?;
                    if let Some(log) = &mut self.log {
                        log.beat(self.dropped);
                    }
                    self.screen.tell_left_out();
                    self.look_again(&mut guard, &mut posts)?;
                }
                _ = interrupted.recv() => break Ok("told to stop"),
                _ = ended.recv() => break Ok("told to stop"),
            }
        };
        guard.disarm()?;
        if let Some(log) = &mut self.log {
            log.hurry();
        }
        // What was judged until then is told.
        while let Some(judged) = guard.try_next() {
            let judged = judged?;
            let line = self.keep(&judged);
            self.last.push_str(&line);
            keeper.after(&judged, self.mount);
        }
        while let Some(told) = keeper.next(self.mount, as_json).await {
            self.last.push_str(&told);
        }
        self.dropped = guard.dropped()?;
        self.last.push_str(&report::dropped(self.dropped, as_json));
        stopped
    }

    /// Keeps a verdict; what is to be told of it.
    fn keep(&mut self, judged: &Judged) -> String {
        let record = tell(judged, self.mount);
        let line = line(&record, self.options.json.json);
        if let Some(log) = &mut self.log {
            log.keep(Stored::Verdict(Box::new(record)));
        }
        line
    }

    fn tell_news(&mut self) {
        for news in self.log.as_mut().map(Log::news).unwrap_or_default() {
            self.screen.show(report::news(news, self.options.json.json));
        }
    }

    /// Guards no longer what is gone, and again what was made at its path since.
    fn look_again(&mut self, guard: &mut Guard, posts: &mut [Post]) -> Result<(), GuardError> {
        let as_json = self.options.json.json;
        for Post { cgroup, own, below, gone } in posts {
            if !*gone && matches!(cgroup.exists(), Ok(false)) {
                guard.uncover(cgroup.id());
                self.screen.show(report::gone(cgroup, as_json));
                *gone = true;
            }
            if *gone && let Ok(found) = Cgroup::open(cgroup.absolute()) {
                guard.cover(found.id(), &self.options.cover(*own, *below))?;
                self.screen.show(report::back(&found, as_json));
                (*cgroup, *gone) = (found, false);
            }
        }
        Ok(())
    }
}
