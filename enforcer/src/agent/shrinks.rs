//! Changes of limits that are being carried out.

use crate::{
    admin::model::Flight,
    shrink::{Cancel, Observer, now},
};
use enforcer_gate::{Bytes, Command, Instant, Limit, Outcome, Progress, Signal, State, Verdict};
use std::{cell::Cell, collections::BTreeMap, future::Future, rc::Rc};
use tokio::task::{self, JoinSet};

/// Changes at the same time: each has threads and a process of its own.
pub(super) const FLIGHTS_MAX: usize = 16;

/// How a change ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// The container's id.
    pub(super) id: String,
    /// `pod/NAMESPACE/NAME:CONTAINER`
    pub(super) target: String,
    /// The limit asked for.
    pub(super) to: Bytes,
    /// How long it took.
    pub(super) took: enforcer_gate::Micros,
    /// The gate's verdict, or why there is none.
    pub(super) result: Result<Verdict, Failed>,
}

/// Why there is no verdict.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) why: String,
    /// The limit asked for is in force all the same: the runtime may have it yet.
    pub(super) stands: bool,
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self { why, stands: false }
    }
}

impl Ended {
    /// The limit that it has put in force.
    pub(super) fn in_force(&self) -> Option<Bytes> {
        let stands = match &self.result {
            Ok(verdict) => *verdict == Verdict::Committed,
            Err(failed) => failed.stands,
        };
        stands.then_some(self.to)
    }
}

#[derive(Debug)]
struct InFlight {
    target: String,
    sandbox: String,
    from: Limit,
    to: Bytes,
    since: Instant,
    by: &'static str,
    seen: Rc<Seen>,
    cancel: Cancel,
    task: task::Id,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    /// The container's id.
    pub(super) id: String,
    /// `pod/NAMESPACE/NAME:CONTAINER`
    pub(super) target: String,
    /// The pod's sandbox: one change a pod at a time.
    pub(super) sandbox: String,
    /// The limit in force.
    pub(super) from: Limit,
    /// The limit to be.
    pub(super) to: Bytes,
    /// Who wants it.
    pub(super) by: &'static str,
}

/// What a change is given to work with.
pub(super) struct Given {
    /// Ends it.
    pub(super) cancel: Cancel,
    /// To be told how it goes.
    pub(super) observer: Follow,
}

/// Changes in flight, each a task on the agent's thread.
#[derive(Debug, Default)]
pub(super) struct Shrinks {
    flights: BTreeMap<String, InFlight>,
    tasks: JoinSet<Ended>,
}

impl Shrinks {
    /// Begins one. Must be called in a `LocalSet`. False where its pod has one already, or too many are in flight.
    pub(super) fn start<F>(&mut self, ask: Ask, work: impl FnOnce(Given) -> F) -> bool
    where
        F: Future<Output = Result<Verdict, Failed>> + 'static,
    {
        if self.flights.len() >= FLIGHTS_MAX || self.is_busy(&ask.sandbox) {
            return false;
        }
        let (seen, cancel, since) = (Rc::new(Seen::default()), Cancel::new(), now());
        let future = work(Given { cancel: cancel.clone(), observer: Follow(Rc::clone(&seen)) });
        let Ask { id, target, sandbox, from, to, by } = ask;
        let (of_task, told) = (id.clone(), target.clone());
        let task = self.tasks.spawn_local(async move {
            let result = future.await;
            Ended { id: of_task, target: told, to, took: now().since(since), result }
        });
        let flight = InFlight { target, sandbox, from, to, since, by, seen, cancel, task: task.id() };
        self.flights.insert(id, flight);
        true
    }

    /// Whether a change of this pod is in flight.
    pub(super) fn is_busy(&self, sandbox: &str) -> bool {
        self.flights.values().any(|flight| flight.sandbox == sandbox)
    }

    /// Whether this container's is.
    pub(super) fn has(&self, id: &str) -> bool {
        self.flights.contains_key(id)
    }

    pub(super) fn len(&self) -> usize {
        self.flights.len()
    }

    /// Whether none changes anything any more: of those that are left all files are as they stay.
    pub(super) fn are_still(&self) -> bool {
        self.flights.values().all(|flight| flight.seen.is_still.get())
    }

    /// Those that still change something, a line each.
    pub(super) fn not_still(&self) -> impl Iterator<Item = String> {
        let at = now();
        let moving = self.flights.values().filter(|flight| !flight.seen.is_still.get());
        moving.map(move |flight| {
            let InFlight { target, from, to, since, seen, .. } = flight;
            format!("{target}: {from} -> {to}, {}, for {}", name(seen.state.get()), at.since(*since))
        })
    }

    /// The next one that ends; `None` where none is in flight. Cancel safe.
    pub(super) async fn ended(&mut self) -> Option<Ended> {
        loop {
            match self.tasks.join_next_with_id().await? {
                Ok((_, ended)) => {
                    self.flights.remove(&ended.id);
                    return Some(ended);
                }
                // Its session put everything back as it was dropped.
                Err(error) => {
                    let is_its = |(_, flight): &(&String, &InFlight)| flight.task == error.id();
                    let id = self.flights.iter().find(is_its).map(|(id, _)| id.clone());
                    let Some((id, flight)) = id.and_then(|id| self.flights.remove_entry(&id)) else {
                        continue;
                    };
                    let InFlight { target, to, since, .. } = flight;
                    let result = Err("it panicked in the agent, and was put back".to_owned().into());
                    return Some(Ended { id, target, to, took: now().since(since), result });
                }
            }
        }
    }

    /// Has all of them taken back, as fast as each can.
    pub(super) fn cancel(&self) {
        for flight in self.flights.values() {
            flight.cancel.cancel();
        }
    }

    /// What is in flight.
    pub(super) fn list(&self) -> Vec<Flight> {
        let at = now();
        let flight = |flight: &InFlight| Flight {
            target: flight.target.clone(),
            to: flight.to,
            from: flight.from,
            state: name(flight.seen.state.get()).into(),
            since: at.since(flight.since),
            by: flight.by.into(),
        };
        self.flights.values().map(flight).collect()
    }
}

const fn name(state: State) -> &'static str {
    match state {
        State::Idle => "beginning",
        State::Observing => "observing",
        State::Reclaiming => "reclaiming",
        State::Trial => "trial",
        State::Committing => "committing",
        State::Watching => "watching",
        State::Restoring => "restoring",
        State::Ended => "ending",
    }
}

/// What is known of one.
#[derive(Debug)]
struct Seen {
    state: Cell<State>,
    is_still: Cell<bool>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { state: Cell::new(State::Idle), is_still: Cell::new(false) }
    }
}

/// Knows the gate's state.
pub(super) struct Follow(Rc<Seen>);

impl Observer for Follow {
    fn signal(&mut self, _now: Instant, _signal: &Signal) {}
    fn outcome(&mut self, _now: Instant, _outcome: &Outcome) {}
    fn note(&mut self, _now: Instant, _text: &str) {}
    fn afterwards(&mut self, _text: &str) {}
    fn command(&mut self, _now: Instant, _command: &Command) {}
    fn timeout(&mut self, _now: Instant) {}
    fn progress(&mut self, _now: Instant, progress: &Progress) {
        self.0.state.set(progress.state);
        self.0.is_still.set(false);
    }
    fn still(&mut self) {
        self.0.state.set(State::Ended);
        self.0.is_still.set(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(id: &str, sandbox: &str) -> Ask {
        Ask {
            id: id.into(),
            target: format!("pod/a/{sandbox}:{id}"),
            sandbox: sandbox.into(),
            from: Limit::Max,
            to: Bytes::from_mib(1),
            by: "policy",
        }
    }

    #[tokio::test]
    async fn one_a_pod_and_all_are_cancelled() {
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let mut shrinks = Shrinks::default();
                let (end, is_over) = tokio::sync::watch::channel(false);
                let wait = |mut given: Given| {
                    let mut is_over = is_over.clone();
                    async move {
                        given.cancel.cancelled().await;
                        given.observer.still();
                        is_over.wait_for(|is_over| *is_over).await.expect("is told");
                        Err("cancelled".to_owned().into())
                    }
                };
                assert!(shrinks.start(ask("1", "p"), wait) && !shrinks.start(ask("2", "p"), wait));
                assert!(shrinks.start(ask("3", "q"), wait));
                assert_eq!((shrinks.len(), shrinks.list().len()), (2, 2));
                assert!(shrinks.is_busy("p") && !shrinks.is_busy("r"));
                assert!(!shrinks.are_still());
                let lines: Vec<_> = shrinks.not_still().collect();
                assert!(lines[0].starts_with("pod/a/p:1: max -> 1Mi, beginning, for "), "{lines:?}");
                assert_eq!(lines.len(), 2);
                shrinks.cancel();
                while !shrinks.are_still() {
                    tokio::task::yield_now().await;
                }
                assert_eq!((shrinks.len(), shrinks.not_still().count()), (2, 0), "a disk hangs");
                end.send_replace(true);
                for _ in 0..2 {
                    let ended = shrinks.ended().await.expect("ends");
                    assert_eq!(ended.result, Err("cancelled".to_owned().into()));
                    assert_eq!(ended.in_force(), None);
                }
                assert!(shrinks.ended().await.is_none());
                assert!(shrinks.len() == 0 && shrinks.are_still());
            })
            .await;
    }

    #[tokio::test]
    async fn one_that_panics_is_told_and_takes_no_other_with_it() {
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let mut shrinks = Shrinks::default();
                let panics = |_: Given| async { panic!("on purpose") };
                let hangs = |_: Given| std::future::pending();
                assert!(shrinks.start(ask("1", "p"), hangs) && shrinks.start(ask("2", "q"), panics));
                let ended = shrinks.ended().await.expect("ends");
                assert_eq!((ended.id.as_str(), ended.target.as_str()), ("2", "pod/a/q:2"));
                assert!(ended.result.is_err_and(|failed| failed.why.contains("panicked")));
                assert!(shrinks.is_busy("p") && !shrinks.is_busy("q") && shrinks.len() == 1);
            })
            .await;
    }
}
