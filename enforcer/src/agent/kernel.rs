//! What the kernel programs tell, handed to whoever wants it.

use super::{Agent, BATCH_MAX, sentinel::Drifted};
use crate::{
    drift::{Drift, Outcome, Report, Who},
    inventory::{Cue, id_in},
    probe::{Event, Kind, LifeEvent, LimitKind, OomKill, ProbeError},
};
use enforcer_gate::CgroupId;
use std::collections::BTreeMap;

impl Agent {
    /// Takes an event and those that are there already.
    pub(super) fn kernel_events(&mut self, first: Event) -> Result<(), ProbeError> {
        self.kernel_event(first);
        self.kernel_now()
    }

    /// Takes the events that are there already.
    pub(super) fn kernel_now(&mut self) -> Result<(), ProbeError> {
        for _ in 1..BATCH_MAX {
            let Some(next) = self.probe.as_mut().and_then(crate::probe::Probe::try_next) else { break };
            self.kernel_event(next?);
        }
        let drops = self.kernel_drops();
        if let Some(recorder) = &mut self.recorder {
            recorder.settle(&drops);
        }
        self.settle_drift();
        Ok(())
    }

    fn kernel_event(&mut self, event: Event) {
        if let Some(recorder) = &mut self.recorder {
            recorder.take(&event);
        }
        if self.config.drift.watch {
            self.sentinel.take(&event, &self.book);
        }
        match &event {
            Event::CgroupLife(life) => {
                let cue = match life.event {
                    LifeEvent::Mkdir => Some(Cue::Born),
                    LifeEvent::Rmdir => Some(Cue::Died),
                    LifeEvent::Release => None,
                };
                let id = id_in(&String::from_utf8_lossy(life.name.as_bytes()));
                if let (Some(hints), Some(id), Some(cue)) = (self.runtime.hints(), id, cue) {
                    hints.look_at(&id, cue);
                }
            }
            Event::OomKill(kill) => self.oom_kill(kill),
            Event::OomEnd(_)
            | Event::ReclaimBegin(_)
            | Event::ReclaimEnd(_)
            | Event::LimitWrite(_)
            | Event::Judged(_) => {}
        }
        self.feed.send(event);
    }

    fn oom_kill(&mut self, kill: &OomKill) {
        let id = kill.victim.cgroup.and_then(|cgroup| self.book.by_cgroup(cgroup));
        let id = id.map(|entry| entry.container.id.clone());
        if let Some(entry) = id.and_then(|id| self.book.get_mut(&id)) {
            entry.oom_kills = entry.oom_kills.saturating_add(1);
        }
    }

    /// What had no room in the kernel's buffer, by kind.
    pub(super) fn kernel_drops(&self) -> BTreeMap<Kind, u64> {
        self.probe.as_ref().and_then(|probe| probe.drops().ok()).unwrap_or_default()
    }

    /// Tells of the writes that are whole by now.
    pub(super) fn settle_drift(&mut self) {
        if !self.config.drift.watch {
            return;
        }
        for report in self.sentinel.settle(self.paused, &self.book) {
            self.written(&report);
        }
        for cgroup in self.sentinel.ask_again() {
            self.ask_of(cgroup);
        }
        for drifted in self.sentinel.judge(self.paused, &self.book) {
            self.drifted(&drifted);
        }
    }

    /// Has the runtime asked what it has of the container whose cgroup it is.
    pub(super) fn ask_of(&self, cgroup: CgroupId) {
        if let (Some(hints), Some(entry)) = (self.runtime.hints(), self.book.by_cgroup(cgroup)) {
            hints.look_at(&entry.container.id, Cue::Changed);
        }
    }

    fn written(&mut self, report: &Report) {
        let Outcome::Ended { drift, .. } = report.outcome else { return };
        self.metrics.limit_written(report.write.file, report.about.who);
        // The runtime may have it otherwise by now, and then it is none; and where it lags behind a limit of ours, this may
        // be its own write of it.
        let lags = self.book.by_cgroup(report.write.cgroup).is_some_and(|entry| entry.ours.is_some());
        // So it is where another enforcer has changed it, which tells the runtime before it ends.
        let ours = report.about.who == Who::Ours;
        if drift == Drift::New || (drift == Drift::No && (lags || ours)) {
            self.ask_of(report.write.cgroup);
        }
        self.by_another_enforcer(report);
    }

    /// A command beside the agent has changed what a container may have: that happened to it as well.
    fn by_another_enforcer(&mut self, report: &Report) {
        let Report { write, about, .. } = report;
        let is_another = about.who == Who::Ours && write.writer.tgid != std::process::id();
        let is_changed = write.end.is_some_and(|end| end.new != write.old);
        let entry = self.book.by_cgroup(write.cgroup).filter(|entry| !entry.in_flight);
        let (true, true, LimitKind::MemoryMax, Some(entry)) = (is_another, is_changed, write.file, entry)
        else {
            return;
        };
        let target = entry.target();
        let text = format!("{} (pid {}), beside the agent", written_by(report), write.writer.tgid);
        self.happened(&target, crate::admin::model::HappeningKind::Verdict, &text);
    }

    fn drifted(&mut self, drifted: &Drifted) {
        if !drifted.is_new {
            return;
        }
        let who = drifted.report.as_ref().map_or(Who::Other, |report| report.about.who);
        self.metrics.drifted(drifted.file, who);
        let text = drifted.report.as_ref().map_or_else(
            || {
                let (file, value) = (drifted.file.name(), crate::drift::shown(drifted.value));
                format!("{file} is {value} and not what the runtime has")
            },
            written_by,
        );
        let target = self.book.by_cgroup(drifted.cgroup).map(super::book::Entry::target).unwrap_or_default();
        self.happened(&target, crate::admin::model::HappeningKind::Drift, &text);
    }
}

/// Who wrote what.
fn written_by(report: &Report) -> String {
    let Report { write, about, outcome } = report;
    let cause = match outcome {
        Outcome::Ended { cause, .. } => cause.name(),
        Outcome::Running => "it has not returned",
    };
    let who = match about.who {
        Who::Ours => "enforcer".to_owned(),
        Who::Systemd => "systemd".to_owned(),
        Who::Other => {
            let comm = String::from_utf8_lossy(write.writer.comm.as_bytes());
            format!("{comm} ({})", write.writer.tgid)
        }
    };
    let new = write.end.map(|end| crate::drift::shown(end.new).to_string()).unwrap_or_default();
    format!("{} {} -> {new} by {who}: {cause}", write.file.name(), crate::drift::shown(write.old))
}
