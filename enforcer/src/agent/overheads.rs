//! What every pod costs beyond its containers, looked at again and again on a thread of its own: a process's files may
//! keep whoever reads them waiting. It reads no more than it may, whatever there is to read.

use super::book::Book;
use crate::{
    cgroup::Mount,
    clock::nanos,
    config,
    metrics::{OverheadGauges, definitions::PODS_MAX},
    overhead::{
        account::account,
        cpu::{self, Times},
        helpers::Sandbox,
        kin::kin,
        look::{self, Subject},
        sample::Proc,
    },
};
use enforcer_gate::Micros;
use nix::time::ClockId;
use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Files of cgroups that a look at a pod reads, and at each of its containers.
const POD_READS: u64 = 5;
const APP_READS: u64 = 3;

/// What looking took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// Files that were read.
    pub(super) reads: u64,
    /// CPU time of the thread.
    pub(super) cpu: Micros,
    /// Looks of which a figure could not be read.
    pub(super) incomplete: u64,
    /// Pods that there is no room for, each time that pods changed.
    pub(super) left_out: u64,
}

/// How much may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    /// From one look at a pod to the next, at least.
    pub(super) interval: Duration,
    /// Files a second.
    pub(super) reads_per_second: u32,
}

/// A pod, by what it is known as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) subject: Subject,
}

/// The thread. It ends with this.
#[derive(Debug)]
pub(super) struct Overheads {
    board: Arc<Board>,
    proc: Proc,
    mount: Arc<Mount>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    pods: BTreeMap<String, Followed>,
    pace: Pace,
    /// Nothing is read before.
    rests_until: Instant,
    spent: Spent,
    ended: bool,
}

#[derive(Debug)]
struct Followed {
    named: Arc<Named>,
    due: Instant,
    /// The last look's.
    times: Option<(Instant, Times)>,
    figures: Option<OverheadGauges>,
    cpu: Micros,
}

/// What one look gave.
struct Look {
    figures: OverheadGauges,
    times: Option<Times>,
    at: Instant,
    /// The first processes of its containers all live. Where one has ended, what it used was reaped with it, and is no
    /// overhead.
    is_comparable: bool,
    is_complete: bool,
    reads: u64,
}

impl Overheads {
    pub(super) fn start(proc: Proc, mount: Arc<Mount>, pace: Pace) -> io::Result<Self> {
        let state = State {
            pods: BTreeMap::new(),
            pace,
            rests_until: Instant::now(),
            spent: Spent::default(),
            ended: false,
        };
        let board = Arc::new(Board { state: Mutex::new(state), changed: Condvar::new() });
        let mut overheads = Self { board, proc, mount, thread: None };
        overheads.begin()?;
        Ok(overheads)
    }

    /// Begins again where the thread has ended, which it should not. Whether it had.
    pub(super) fn begin(&mut self) -> io::Result<bool> {
        if self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(false);
        }
        let (board, proc, mount) = (Arc::clone(&self.board), self.proc.clone(), Arc::clone(&self.mount));
        let work = move || board.work(&proc, &mount);
        let begun = std::thread::Builder::new().name("overheads".into()).spawn(work)?;
        Ok(self.thread.replace(begun).is_some())
    }

    /// From now on these pods are looked at, by their sandboxes' ids, the first [`PODS_MAX`] of them; what was found of those that stay is kept.
    pub(super) fn follow(&self, pods: BTreeMap<String, Named>) {
        let mut state = self.board.locked();
        let now = Instant::now();
        let mut before = std::mem::take(&mut state.pods);
        let left_out = pods.len().saturating_sub(PODS_MAX);
        for (sandbox, named) in pods.into_iter().take(PODS_MAX) {
            let followed = match before.remove(&sandbox) {
                Some(mut followed) if *followed.named != named => {
                    // Of other containers: what they used can't be compared.
                    followed.times = None;
                    Followed { named: Arc::new(named), ..followed }
                }
                Some(followed) => followed,
                None => Followed {
                    named: Arc::new(named),
                    due: now,
                    times: None,
                    figures: None,
                    cpu: Micros::ZERO,
                },
            };
            state.pods.insert(sandbox, followed);
        }
        state.spent.left_out =
            state.spent.left_out.saturating_add(u64::try_from(left_out).unwrap_or(u64::MAX));
        self.board.changed.notify_one();
    }

    pub(super) fn set_pace(&self, pace: Pace) {
        self.board.locked().pace = pace;
        self.board.changed.notify_one();
    }

    /// What was found last of each pod, and what that took so far.
    pub(super) fn figures(&self) -> (Vec<OverheadGauges>, Spent) {
        let state = self.board.locked();
        (state.pods.values().filter_map(|followed| followed.figures.clone()).collect(), state.spent)
    }
}

impl Drop for Overheads {
    fn drop(&mut self) {
        self.board.locked().ended = true;
        // It is not waited for: a process's files may hang.
        self.board.changed.notify_one();
    }
}

impl Board {
    /// Who panicked while holding it left it whole: nothing in here can panic half-way.
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, proc: &Proc, mount: &Arc<Mount>) {
        while let Some((sandbox, named)) = self.turn() {
            let look = Look::take(proc, mount, &named);
            self.put(&sandbox, &named, look);
        }
    }

    /// Waits for the pod whose turn comes next; `None` at the end.
    fn turn(&self) -> Option<(String, Arc<Named>)> {
        let mut state = self.locked();
        while !state.ended {
            let now = Instant::now();
            let next = state.pods.iter().min_by_key(|(_, followed)| followed.due);
            let Some((sandbox, followed)) = next else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let at = followed.due.max(state.rests_until);
            if at <= now {
                return Some((sandbox.clone(), Arc::clone(&followed.named)));
            }
            let waited = self.changed.wait_timeout(state, at.duration_since(now));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    fn put(&self, sandbox: &str, named: &Arc<Named>, look: Look) {
        let mut state = self.locked();
        let now = Instant::now();
        let spent = &mut state.spent;
        spent.reads = spent.reads.saturating_add(look.reads);
        // Another thread than before begins at zero.
        spent.cpu = spent.cpu.max(Micros::new(nanos(ClockId::CLOCK_THREAD_CPUTIME_ID) / 1000));
        spent.incomplete = spent.incomplete.saturating_add(u64::from(!look.is_complete));
        let Pace { interval, reads_per_second } = state.pace;
        let reads = u32::try_from(look.reads).unwrap_or(u32::MAX);
        state.rests_until = now + Duration::from_secs(1) * reads / reads_per_second.max(1);
        let Some(followed) = state.pods.get_mut(sandbox) else { return };
        followed.due = now + interval;
        // It has other containers by now, or what was seen is not all.
        if !Arc::ptr_eq(&followed.named, named) || !look.is_complete {
            return;
        }
        if !look.is_comparable {
            followed.times = None;
        }
        // Where it could not be read this time the next look covers both.
        if let Some(times) = look.times {
            if let Some((before_at, before)) = &followed.times {
                let span = (look.at - *before_at).as_micros();
                let span = Micros::new(u64::try_from(span).unwrap_or(u64::MAX));
                let (used, _) = cpu::between(before, &times, span);
                followed.cpu = followed.cpu.saturating_add(used.used());
            }
            followed.times = look.is_comparable.then_some((look.at, times));
        }
        followed.figures = Some(OverheadGauges { cpu: followed.cpu, ..look.figures });
    }
}

impl Look {
    fn take(proc: &Proc, mount: &Arc<Mount>, named: &Named) -> Self {
        let before = proc.reads();
        let Named { namespace, pod, subject } = named;
        let table = kin(proc, &subject.sandbox);
        let times = look::times(proc, mount, &table, subject);
        let at = Instant::now();
        let sample = account(0, "", look::memory(proc, mount, &table, subject));
        let apps = u64::try_from(subject.apps.len()).unwrap_or(u64::MAX);
        let reads = proc.reads().saturating_sub(before);
        Self {
            at,
            times,
            is_comparable: subject.sandbox.processes.iter().all(|pid| table.get(*pid).is_some()),
            is_complete: sample.is_complete(),
            reads: reads.saturating_add(POD_READS).saturating_add(apps.saturating_mul(APP_READS)),
            figures: OverheadGauges {
                namespace: namespace.clone(),
                pod: pod.clone(),
                residue: sample.residue,
                helpers: u64::try_from(sample.helpers.len()).unwrap_or(u64::MAX),
                terms: sample.terms,
                cpu: Micros::ZERO,
            },
        }
    }
}

/// As it is configured.
pub(super) fn pace(config: &config::Overhead) -> Pace {
    let interval = Duration::from_micros(config.interval.get());
    Pace { interval, reads_per_second: config.reads_per_second }
}

/// The pods of all containers that run and whose cgroup is known, by their sandboxes' ids.
pub(super) fn pods(book: &Book) -> BTreeMap<String, Named> {
    let mut pods: BTreeMap<String, Named> = BTreeMap::new();
    for (id, entry) in book.iter() {
        let (pod, container) = (&entry.pod, &entry.container);
        let Some(cgroup) = &pod.cgroup else { continue };
        let named = pods.entry(pod.sandbox.clone()).or_insert_with(|| Named {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            subject: Subject {
                sandbox: Sandbox {
                    id: pod.sandbox.clone(),
                    first: None,
                    containers: Vec::new(),
                    processes: Vec::new(),
                    cgroup: cgroup.path.clone(),
                },
                apps: Vec::new(),
            },
        });
        let Subject { sandbox, apps } = &mut named.subject;
        sandbox.containers.push(id.to_owned());
        sandbox.processes.extend(container.pid);
        let scope: Option<PathBuf> = container.home.as_ref().ok().map(|home| home.scope.path.clone());
        apps.extend(scope);
    }
    pods
}

#[cfg(test)]
mod tests;
