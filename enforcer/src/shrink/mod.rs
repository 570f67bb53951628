//! Drives the gate over a real cgroup.
//!
//! [`run`] is one loop: kernel events, PSI, file notifications, outcomes and deadlines go into the gate;
//! its commands go to the actuator. Decisions are the gate's alone.

mod actuator;
mod at_once;
mod bus;
mod cancel;
mod signals;
mod wake;

use crate::actuate::{ActuateError, Heart, Session, SessionOptions, StateDir};
use crate::cgroup::{Cgroup, CgroupError, Sampler};
use actuator::{Actuator, Worker};
pub use at_once::refused_at_once;
pub use bus::{Bus, BusError, Feed, Heard, Request as BusRequest, Subscription};
pub use cancel::Cancel;
use enforcer_gate::{
    Certificate, Command, Gate, Instant, Outcome, Policy, PolicyError, Progress, Request, Signal, Verdict,
};
pub use signals::WATCHES;
use signals::{BELOW_MAX, Interpreter};
use std::pin::{Pin, pin};
use std::time::Duration;
use wake::Wakeups;

/// How often the restorer is told that the loop runs, and after how long a silence it puts everything back: a process
/// that is stopped or frozen can't, while the workload goes on.
const BEAT: Duration = Duration::from_secs(1);
const SILENCE: Duration = Duration::from_secs(5);

/// What a shrink needs to know.
pub struct Plan {
    /// The cgroup whose `memory.max` is to go down.
    pub cgroup: Cgroup,
    /// How far, and whether to change anything.
    pub request: Request,
    /// The thresholds in force.
    pub policy: Policy,
    /// Where the journal lives; without one nothing is lowered, which is enough for a dry run.
    pub state_dir: Option<StateDir>,
    /// How the restorer is set up.
    pub session: SessionOptions,
    /// Ends it before its time; without one Ctrl-C and SIGTERM do, which are left alone where there is one.
    pub cancel: Option<Cancel>,
}

/// Sees everything that goes into and comes out of the gate, in order: a progress display, a trace.
pub trait Observer {
    /// The gate was told that something happened.
    fn signal(&mut self, now: Instant, signal: &Signal);
    /// The gate was told what came of a command.
    fn outcome(&mut self, now: Instant, outcome: &Outcome);
    /// The gate was told something for its certificate.
    fn note(&mut self, now: Instant, text: &str);
    /// Something to know that came after the certificate.
    fn afterwards(&mut self, text: &str);
    /// The gate asked for something.
    fn command(&mut self, now: Instant, command: &Command);
    /// A deadline of the gate's passed.
    fn timeout(&mut self, now: Instant);
    /// How it stands, after each of the above.
    fn progress(&mut self, now: Instant, progress: &Progress);
    /// Every file is as it stays. What is left to end is the journal, for which a disk may have to be waited, and the
    /// restorer. Not told where something failed.
    fn still(&mut self) {}
}

/// Looks at nothing.
pub struct NoObserver;

impl Observer for NoObserver {
    fn signal(&mut self, _now: Instant, _signal: &Signal) {}
    fn outcome(&mut self, _now: Instant, _outcome: &Outcome) {}
    fn note(&mut self, _now: Instant, _text: &str) {}
    fn afterwards(&mut self, _text: &str) {}
    fn command(&mut self, _now: Instant, _command: &Command) {}
    fn timeout(&mut self, _now: Instant) {}
    fn progress(&mut self, _now: Instant, _progress: &Progress) {}
}

/// Why a shrink could not be carried through. Nothing is left lowered in any of these.
#[derive(Debug, thiserror::Error)]
pub enum ShrinkError {
    /// Contradictory thresholds.
    #[error("the policy does not hold: {}", .0.0.join("; "))]
    Policy(PolicyError),
    /// The cgroup can't be read.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The cgroup can't be changed, or somebody else is at it.
    #[error(transparent)]
    Actuate(#[from] ActuateError),
    /// The kernel programs stopped delivering.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The runtime refused a thread, a timer or a descriptor.
    #[error("{what}")]
    Io {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The gate stopped without a certificate, which is a defect of enforcer.
    #[error("the gate stopped without a certificate; please report this as a bug")]
    NoCertificate,
}

impl ShrinkError {
    fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

/// Microseconds on `CLOCK_MONOTONIC`, the clock of the kernel programs' time stamps.
pub fn now() -> Instant {
    let time =
        nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
    Instant::new(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// Runs one shrink to its end and returns what it can prove.
///
/// [`Plan::cancel`] ends it: everything goes back as found. So does the end of the restorer. On return, also with
/// an error, the new limit is whole in force or every file is as it was found.
pub async fn run(plan: Plan, bus: &Bus, observer: &mut dyn Observer) -> Result<Certificate, ShrinkError> {
    let run = run_confirmed(plan, bus, observer, async |_, _| Confirmed::Keep);
    run.await.map(|(certificate, _)| certificate)
}

/// What is to become of a limit that the gate has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmed {
    /// It stays.
    Keep,
    /// It goes back up to what was found, unless somebody else has written the file since.
    TakeBack,
}

/// As [`run`], and before a committed limit is final `confirm` is asked: until it answers, journal and restorer put the
/// limit back up if this process ends. Its second argument ends when the shrink is to stop, which it must heed within a
/// second. The answer comes back where it was asked.
pub async fn run_confirmed(
    plan: Plan,
    bus: &Bus,
    observer: &mut dyn Observer,
    confirm: impl AsyncFnOnce(&Certificate, Pin<&mut dyn Future<Output = ()>>) -> Confirmed,
) -> Result<(Certificate, Option<Confirmed>), ShrinkError> {
    let mut gate = Gate::new(plan.policy.clone()).map_err(ShrinkError::Policy)?;
    let sampler = Sampler::new(&plan.cgroup)?;
    let mut wakeups = Wakeups::new(&plan.cgroup, plan.cancel.as_ref())?;
    // Beginning may have to wait for others; whoever stops it meanwhile gets the verdict at once. What has begun by then
    // is undone when it is dropped.
    let (session, stopped) = tokio::select! {
        session = begin(&plan) => (session?, false),
        () = wakeups.stopped() => (None, true),
    };
    // Whatever came first: from here on nothing is lowered.
    let stopped = stopped || plan.cancel.as_ref().is_some_and(Cancel::is_cancelled);
    if let Some(session) = &session {
        wakeups.watch(session)?;
    }
    let notes = session.as_ref().map(|session| session.notes().to_vec()).unwrap_or_default();
    let ours = session.as_ref().map(Session::restorer_pid).into_iter().chain([std::process::id()]);
    let heart = session.as_ref().map(Session::heart);
    let mut kernel = bus.subscribe();
    let mut interpreter = Interpreter::new(plan.cgroup.id(), ours, plan.cgroup.descendant_ids(BELOW_MAX)?);
    bus.watch(plan.cgroup.id()).await?;
    let actuator = Actuator::start(Worker {
        sampler,
        session,
        commit_deadline: Duration::from_micros(plan.policy.commit_deadline.get()),
    })
    .map_err(ShrinkError::io("start the worker threads"))?;
    let mut drive = Drive { gate: &mut gate, actuator, observer };
    drive.signal(&Signal::Request(plan.request));
    for note in &notes {
        drive.note(note);
    }
    if stopped {
        drive.signal(&Signal::Cancel);
    }
    let result = drive.drive(&mut kernel, &mut interpreter, &mut wakeups, heart.as_ref()).await;
    if let Some(heart) = heart {
        heart.rest();
    }
    // Asked once more after that: from here on it acts at its deadline alone.
    if wakeups.restorer_acted() {
        drive.signal(&Signal::RestorerGone);
    }
    let committed = drive.gate.certificate().filter(|certificate| certificate.verdict == Verdict::Committed);
    let mut confirmed = match committed {
        Some(certificate) => Some(confirm(certificate, pin!(wakeups.stopped())).await),
        None => None,
    };
    let is_left = drive.gate.certificate().is_some_and(Certificate::is_left);
    let kept = confirmed == Some(Confirmed::Keep) || is_left;
    let is_still = match drive.gate.certificate().map(|certificate| &certificate.verdict) {
        Some(Verdict::Committed) => kept,
        // The gate has put everything back already, however long the worker waits for a disk.
        Some(Verdict::Feasible | Verdict::Refused(_) | Verdict::RolledBack(_)) => true,
        Some(Verdict::Failed(_)) | None => false,
    };
    if is_still {
        drive.observer.still();
    }
    match end(drive.actuator, kept).await {
        Ok(texts) => texts.iter().for_each(|text| drive.observer.afterwards(text)),
        // It was in force until here, and is no more.
        Err(ShrinkError::Actuate(ActuateError::Undone { .. })) => {
            let at = now();
            drive.gate.handle_signal(&Signal::RestorerGone, at);
            drive.observer.signal(at, &Signal::RestorerGone);
            confirmed = Some(Confirmed::TakeBack);
        }
        Err(error) => return Err(error),
    }
    bus.unwatch(plan.cgroup.id()).await?;
    result?;
    let certificate = gate.certificate().cloned().ok_or(ShrinkError::NoCertificate)?;
    Ok((certificate, confirmed))
}

/// Starting the restorer and writing the journal take their time, and other shrinks share this loop.
async fn begin(plan: &Plan) -> Result<Option<Session>, ShrinkError> {
    let Some(state_dir) = plan.state_dir.clone().filter(|_| !plan.request.dry_run) else { return Ok(None) };
    let (cgroup, options) = (plan.cgroup.clone(), plan.session.clone());
    let session = tokio::task::spawn_blocking(move || Session::begin(&cgroup, &state_dir, &options));
    Ok(Some(session.await.map_err(|error| ShrinkError::io("begin the session")(error.into()))??))
}

/// Waits for the worker threads, whatever the kernel still does for them, and lets the restorer go.
async fn end(actuator: Actuator, kept: bool) -> Result<Vec<String>, ShrinkError> {
    let ended =
        tokio::task::spawn_blocking(move || match actuator.stop().and_then(|worker| worker.session) {
            Some(session) => session.finish(kept),
            None => Ok(Vec::new()),
        });
    Ok(ended.await.map_err(|error| ShrinkError::io("end the session")(error.into()))??)
}

struct Drive<'a> {
    gate: &'a mut Gate,
    actuator: Actuator,
    observer: &'a mut dyn Observer,
}

impl Drive<'_> {
    fn signal(&mut self, signal: &Signal) {
        let at = now();
        self.gate.handle_signal(signal, at);
        self.observer.signal(at, signal);
        self.carry_on(at);
    }

    fn note(&mut self, text: &str) {
        self.gate.note(text);
        self.observer.note(now(), text);
    }

    fn outcome(&mut self, outcome: &Outcome) {
        let at = now();
        self.gate.handle_outcome(outcome, at);
        self.observer.outcome(at, outcome);
        self.carry_on(at);
    }

    fn timeout(&mut self) {
        let at = now();
        self.gate.handle_timeout(at);
        self.observer.timeout(at);
        self.carry_on(at);
    }

    /// Hands every command over before anything is shown to anybody.
    fn carry_on(&mut self, at: Instant) {
        while let Some(command) = self.gate.poll_command() {
            self.actuator.submit(command.clone());
            self.observer.command(at, &command);
        }
        if let Some(progress) = self.gate.progress() {
            self.observer.progress(at, &progress);
        }
    }

    async fn drive(
        &mut self,
        kernel: &mut Subscription,
        interpreter: &mut Interpreter,
        wakeups: &mut Wakeups,
        restorer: Option<&Heart>,
    ) -> Result<(), ShrinkError> {
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while self.gate.certificate().is_none() {
            // First of all: what the restorer has put back is not in force, whatever else has come of it in time.
            if wakeups.restorer_acted() {
                self.signal(&Signal::RestorerGone);
                continue;
            }
            // What was done in time is in time, however late this process comes to hear of it.
            if let Some(outcome) = self.actuator.landed() {
                self.outcome(&outcome);
                continue;
            }
            let Some(deadline) = self.gate.poll_timeout() else { return Err(ShrinkError::NoCertificate) };
            let rest = Duration::from_micros(deadline.since(now()).get());
            tokio::select! {
                outcome = self.actuator.outcome() => match outcome {
                    Some(outcome) => self.outcome(&outcome),
                    None => return Err(ShrinkError::NoCertificate),
                },
                heard = kernel.next() => {
                    if let Some(signal) = interpreter.signal(&heard?) {
                        self.signal(&signal);
                    }
                }
                signal = wakeups.next() => self.signal(&signal?),
                () = tokio::time::sleep(rest) => self.timeout(),
                _ = beat.tick() => {
                    if let Some(restorer) = restorer {
                        restorer.beat(SILENCE);
                    }
                }
            }
        }
        Ok(())
    }
}
