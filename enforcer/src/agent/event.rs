//! Everything that can happen to the agent.

use super::{
    Agent,
    guards::{Guards, Told},
    kubelet,
    reader::Read,
    recorder::{self, Recorder},
    runtime::News,
    sentinel::Mended,
    shrinks::Ended,
    state::Opened,
};
use crate::{
    admin::Question,
    clock::nanos,
    config::Changes,
    guard::GuardError,
    probe::{self, Probe, ProbeError},
    shrink::BusRequest,
};
use nix::time::ClockId;
use std::{future::pending, time::Duration};
use tokio::sync::oneshot;

/// What happened.
pub(super) enum Event {
    /// The kernel programs tell.
    Kernel(Result<probe::Event, ProbeError>),
    /// The kernel programs were loaded, or could not be.
    Loaded(Result<Box<Probe>, String>),
    /// The guard was.
    GuardLoaded(Result<Box<Guards>, String>),
    /// A shrink asks something of the kernel programs.
    Asked(BusRequest),
    /// The container runtime has news.
    Runtime(News),
    /// Containers were read; nothing where the reader's thread has ended, which it should not.
    Read(Option<Vec<Read>>),
    /// The recorder has something to say; nothing where its thread has ended, which it should not.
    Recorded(Option<recorder::Told>),
    /// The journals' folder was opened and settled, or could not be.
    State(Opened),
    /// The guard has something to say.
    Guard(Result<Told, GuardError>),
    /// A limit was put back, or not.
    Mended(Mended),
    /// A change of a limit has ended.
    Ended(Ended),
    /// Somebody asks over the admin socket.
    Question(Question),
    /// Somebody scrapes.
    Scrape(oneshot::Sender<()>),
    /// The API server has something to say.
    Kubernetes(kubelet::Told),
    /// A deadline of the sentinel's.
    Due,
    /// A second has passed.
    Beat,
    /// SIGHUP, or the configuration's file is another one.
    Reload,
    /// SIGTERM or SIGINT.
    Stop,
}

impl Agent {
    /// Waits for the next. Cancel safe, as all of its sources are.
    pub(super) async fn next(&mut self) -> Event {
        let due_ns = self.sentinel.due_ns();
        let Self {
            probe,
            kernel_loading,
            guard_loading,
            feed,
            runtime,
            reader,
            recorder,
            guards,
            sentinel,
            shrinks,
            kubelet: kubernetes,
            state,
            questions,
            scrapes,
            beat,
            signals,
            changes,
            ..
        } = self;
        tokio::select! {
            _ = signals.terminate.recv() => Event::Stop,
            _ = signals.interrupt.recv() => Event::Stop,
            _ = beat.tick() => Event::Beat,
            event = kernel(probe.as_mut()) => Event::Kernel(event),
            Some(loaded) = kernel_loading.next() => Event::Loaded(loaded.map(Box::new)),
            Some(loaded) = guard_loading.next() => Event::GuardLoaded(loaded.map(Box::new)),
            Some(request) = feed.request() => Event::Asked(request),
            Some(ended) = shrinks.ended() => Event::Ended(ended),
            told = guard(guards.as_mut()) => Event::Guard(told),
            Some(question) = questions.recv() => Event::Question(question),
            Some(reply) = scrapes.recv() => Event::Scrape(reply),
            told = recorded(recorder.as_mut()) => Event::Recorded(told),
            Some(opened) = state.next() => Event::State(opened),
            Some(mended) = sentinel.mended() => Event::Mended(mended),
            news = runtime.next() => Event::Runtime(news),
            reads = reader.next() => Event::Read(reads),
            told = kubernetes.next() => Event::Kubernetes(told),
            () = due(due_ns) => Event::Due,
            _ = signals.hangup.recv() => Event::Reload,
            () = changed(changes.as_mut()) => Event::Reload,
        }
    }
}

async fn kernel(probe: Option<&mut Probe>) -> Result<probe::Event, ProbeError> {
    match probe {
        Some(probe) => probe.next_event().await,
        None => pending().await,
    }
}

async fn guard(guards: Option<&mut Guards>) -> Result<Told, GuardError> {
    match guards {
        Some(guards) => guards.next().await,
        None => pending().await,
    }
}

async fn recorded(recorder: Option<&mut Recorder>) -> Option<recorder::Told> {
    match recorder {
        Some(recorder) => recorder.next().await,
        None => pending().await,
    }
}

async fn changed(changes: Option<&mut Changes>) {
    match changes {
        Some(changes) => changes.next().await,
        None => pending().await,
    }
}

async fn due(due_ns: Option<u64>) {
    match due_ns {
        Some(due_ns) => {
            let left = due_ns.saturating_sub(nanos(ClockId::CLOCK_MONOTONIC));
            tokio::time::sleep(Duration::from_nanos(left)).await;
        }
        None => pending().await,
    }
}
