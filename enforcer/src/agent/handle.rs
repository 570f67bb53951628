//! The loop.

use super::{Agent, End, event::Event, guards::Told, overheads, runtime::News, shrinks};
use crate::{
    admin::{
        Question, Refused, Reply, Request,
        model::{Done, HappeningKind, PartState},
    },
    cgroup::shown,
    health::PartName,
    inventory::{Cue, Update},
    oom::Stored,
    shrink::now,
};

impl Agent {
    /// Runs until it is told to stop, then settles what is in flight. Must be called in a `LocalSet`.
    pub async fn run(mut self) -> End {
        self.happened("", HappeningKind::Agent, "enforcer runs");
        let ended = loop {
            match self.next().await {
                Event::Kernel(event) => {
                    let done = event.and_then(|event| self.kernel_events(event));
                    if let Err(error) = done {
                        break Some(End::Kernel(error.to_string()));
                    }
                }
                Event::Asked(request) => {
                    if let Some(probe) = &mut self.probe {
                        request.serve(probe);
                    }
                }
                Event::Loaded(loaded) => self.kernel_loaded(loaded),
                Event::GuardLoaded(loaded) => self.guard_loaded(loaded),
                Event::Runtime(news) => self.runtime_news(news),
                Event::Read(Some(reads)) => {
                    // What was read may be a write's doing, which is told with who wrote.
                    if let Err(error) = self.kernel_now() {
                        break Some(End::Kernel(error.to_string()));
                    }
                    for read in reads {
                        self.read(read);
                    }
                }
                Event::Read(None) => self.reader_failed("its thread has ended"),
                Event::Recorded(told) => self.recorder_told(told),
                Event::State(opened) => self.opened(opened),
                Event::Guard(told) => self.guard_told(told),
                Event::Mended(mended) => self.mended(mended),
                Event::Ended(ended) => self.shrink_ended(&ended),
                Event::Question(question) => self.asked(question),
                Event::Scrape(reply) => {
                    self.refresh();
                    // Who scrapes may have gone.
                    let _ = reply.send(());
                }
                Event::Kubernetes(told) => self.kubernetes_told(told),
                Event::Due => self.settle_drift(),
                Event::Beat => {
                    self.beat();
                    if self.pausing.is_awaited() {
                        let done = self.done();
                        self.pausing.beat(&done);
                    }
                }
                Event::Reload => drop(self.reload()),
                Event::Stop => break None,
            }
            // Who asked for a pause is answered once nothing is changed any more, whatever a disk still has to do.
            if self.pausing.is_awaited() && self.shrinks.are_still() && !self.sentinel.is_mending() {
                self.pausing.answer(&self.done());
            }
            // Changes in flight are on this thread too.
            tokio::task::yield_now().await;
        };
        self.end(ended).await
    }

    fn done(&self) -> Done {
        let under_way = if self.paused { self.under_way() } else { Vec::new() };
        let text = match (self.paused, under_way.len()) {
            (false, _) => "not paused".into(),
            (true, 0) => "paused: nothing is changed".into(),
            (true, count) => format!("paused: nothing begins, and {count} changes are being taken back"),
        };
        Done { paused: self.paused, text, under_way }
    }

    /// What still changes something, for people.
    fn under_way(&self) -> Vec<String> {
        let mending = self.sentinel.is_mending().then(|| "a limit that drifted is being put back".into());
        self.shrinks.not_still().chain(mending).collect()
    }

    /// Answers, or has who asked wait until nothing is in flight.
    fn asked(&mut self, (request, reply): Question) {
        let answer = match request {
            Request::Pause => {
                self.pause();
                self.pausing.wait(reply);
                return;
            }
            Request::Resume => {
                self.resume();
                Reply::Done(self.done())
            }
            Request::Reload => match self.reload() {
                Ok(text) => Reply::Done(Done { paused: self.paused, text, under_way: Vec::new() }),
                Err(errors) => Reply::Refused(Refused::Configuration, errors),
            },
            Request::Status => Reply::Status(Box::new(self.status())),
            Request::Containers => Reply::Containers(self.views(|_| true)),
            Request::Explain(target) => self.explain(&target),
        };
        // Who asked may have gone.
        drop(reply.send(answer));
    }

    pub(super) fn pause(&mut self) {
        self.shrinks.cancel();
        if !std::mem::replace(&mut self.paused, true) {
            self.happened("", HappeningKind::Agent, "paused: every brake is lifted, nothing is changed");
            self.cover();
        }
    }

    pub(super) fn resume(&mut self) {
        if std::mem::replace(&mut self.paused, false) {
            self.pausing.overtaken();
            self.happened("", HappeningKind::Agent, "resumed");
            self.cover();
        }
    }

    fn runtime_news(&mut self, news: News) {
        match news {
            News::Found(socket) => {
                self.part(PartName::Inventory, PartState::Starting, &format!("asking {}", shown(&socket)));
            }
            News::None(error) => self.inventory_failed(&error.to_string()),
            News::Update(Update::Lost(error)) => {
                self.metrics.runtime_call_failed(&error);
                self.inventory_failed(&error.to_string());
            }
            News::Update(Update::Current(_) | Update::Changed(_)) => {
                if self.part(PartName::Inventory, PartState::Ready, "") {
                    let socket = self.runtime.socket().map(shown).unwrap_or_default();
                    self.happened(
                        "",
                        HappeningKind::Agent,
                        &format!("the inventory is current, from {socket}"),
                    );
                }
                self.sync();
            }
        }
    }

    fn inventory_failed(&mut self, why: &str) {
        if self.part(PartName::Inventory, PartState::Failed, why) {
            self.happened("", HappeningKind::Agent, &format!("the container runtime can't be asked: {why}"));
        }
    }

    /// What the inventory has now goes to everybody who goes by it.
    pub(super) fn sync(&mut self) {
        let Some(shared) = self.runtime.inventory() else { return };
        let moved = self.book.sync(&shared.inventory());
        if moved.is_nothing {
            return;
        }
        for id in &moved.gone {
            self.reader.forget(id);
        }
        self.sentinel.retain(&self.book);
        for (id, home) in moved.born {
            self.reader.follow(&id, home);
        }
        self.steward.sync(&self.book);
        if let Some(overheads) = &self.overheads {
            overheads.follow(overheads::pods(&self.book));
        }
        self.cover();
    }

    fn read(&mut self, read: super::reader::Read) {
        let id = read.id.clone();
        self.book.read(read);
        let Some(entry) = self.book.get(&id).filter(|_| self.config.drift.watch) else { return };
        self.sentinel.look_again(entry, &self.book);
        let Some((_, cgroup)) = entry.drift().zip(entry.reading.as_ref().map(|reading| reading.cgroup.id))
        else {
            return;
        };
        if self.sentinel.found(cgroup, crate::probe::LimitKind::MemoryMax) {
            self.ask_of(cgroup);
        }
    }

    pub(super) fn recorded(&mut self, stored: &Stored) {
        match stored {
            Stored::Oom(record) => {
                self.metrics.oom(record);
                let victim = record.victims.first().and_then(|victim| victim.task.cgroup);
                if let Some(entry) = victim.and_then(|cgroup| self.book.by_cgroup(cgroup)) {
                    self.steward.oom(&entry.container.id, now());
                }
                // It may be gone from the book by now; the record has its names.
                let named = victim.and_then(|cgroup| record.cgroup(cgroup));
                let target = match named.map(|named| (&named.pod, &named.container)) {
                    Some((Some(pod), Some(container))) => format!("pod/{pod}:{container}"),
                    Some((Some(pod), None)) => format!("pod/{pod}"),
                    Some((None, _)) | None => String::new(),
                };
                self.happened(&target, HappeningKind::Oom, &record.says);
            }
            Stored::Began(_) => {}
            Stored::Lost(lost) => {
                let count: u64 =
                    lost.dropped.values().fold(lost.unstored, |sum, count| sum.saturating_add(*count));
                self.happened("", HappeningKind::Agent, &format!("{count} records were lost"));
            }
        }
    }

    fn guard_told(&mut self, told: Result<Told, crate::guard::GuardError>) {
        match told {
            // The gate's own write, which has its verdict.
            Ok(Told::Judged(_, judged)) if is_the_gates(judged.reason) => {}
            Ok(Told::Judged(record, judged)) => {
                let entry = judged.cgroup.and_then(|cgroup| self.book.by_cgroup(cgroup));
                let target = entry.map(super::book::Entry::target).unwrap_or_default();
                let (comm, pid) = (&record.writer.comm, record.writer.pid);
                let text = format!(
                    "{}: \"{}\" to {} of {} by {comm} ({pid}): {}, {} in use",
                    record.verdict, record.text, record.file, record.cgroup, record.reason, record.usage
                );
                self.happened(&target, HappeningKind::Guard, &text);
                if judged.reason == crate::guard::Reason::Blind {
                    self.guard_failed("a cgroup's counters can't be read");
                }
            }
            Ok(Told::Kept(kept)) => {
                let what = match kept.done {
                    Ok(_) => "systemd holds what is in force again".to_owned(),
                    Err(error) => format!("systemd holds what was denied: {error}"),
                };
                let text = format!("{} of {}: {what}", kept.file.name(), shown(&kept.cgroup));
                self.happened("", HappeningKind::Guard, &text);
            }
            Err(error) => self.guard_failed(&error.to_string()),
        }
    }

    fn mended(&mut self, mended: super::sentinel::Mended) {
        self.metrics.mended(mended.file, mended.done.is_ok());
        let (path, file) = (shown(&mended.path), mended.file.name());
        let text = match mended.done {
            Ok((way, value)) => {
                let way = match way {
                    crate::drift::Way::Systemd => "systemd",
                    crate::drift::Way::File => "the file",
                };
                format!("{file} is {} again, through {way}", crate::drift::shown(value))
            }
            Err(error) => format!("{file} of {path} is not put back: {error}"),
        };
        let below = mended.path.strip_prefix(self.mount.point()).unwrap_or(&mended.path);
        let target = self.book.at(below).map(super::book::Entry::target).unwrap_or_default();
        self.happened(&target, HappeningKind::Mended, &text);
    }

    pub(super) fn shrink_ended(&mut self, ended: &shrinks::Ended) {
        let at = now();
        let said = match &ended.result {
            Ok(verdict) => {
                self.metrics.shrink_ended(verdict, ended.took);
                crate::agent::steward::said(verdict)
            }
            Err(failed) => failed.why.clone(),
        };
        if self.kubelet.has(&ended.id) {
            self.way_ended(ended);
        } else {
            self.steward.ended(ended, at);
        }
        if let Some(entry) = self.book.get_mut(&ended.id) {
            entry.ended(at, ended.in_force());
            entry.last_verdict = format!("to {}: {said}", ended.to);
        }
        self.happened(
            &ended.target,
            HappeningKind::Verdict,
            &format!("to {}: {said}, {}", ended.to, ended.took),
        );
        self.reader.soon(&ended.id);
        // The runtime has another limit now.
        if let Some(hints) = self.runtime.hints() {
            hints.look_at(&ended.id, Cue::Changed);
        }
    }

    fn beat(&mut self) {
        self.health.beat();
        self.guard_beat();
        self.begin_again();
        if !self.paused {
            self.kubelet_turn();
            self.policy_turn();
        }
    }

    /// Nobody reads any more.
    pub(super) fn reader_failed(&mut self, why: &str) {
        let why = format!("containers are not read: {why}");
        if self.part(PartName::Policy, PartState::Failed, &why) {
            self.happened("", HappeningKind::Agent, &why);
        }
    }
}

/// Whether a write went through for the gate vouched for it.
fn is_the_gates(reason: crate::guard::Reason) -> bool {
    use crate::guard::Reason;
    reason == Reason::Leased || reason == Reason::UnavailableLeased
}
