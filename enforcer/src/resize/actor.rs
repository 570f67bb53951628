//! Carries plans out.

use super::{
    Ask, Look, Outcome, Plan, ResizeError, Set, Step, Told, Via,
    outcome::mismatches,
    plan::plan,
    read::{look, look_at},
    tell::tell,
};
use crate::{
    actuate::{SessionOptions, StateDir},
    cgroup::{Cgroup, CgroupError, Mount, shown},
    cri::{Client, message::LinuxContainerResources},
    drift::{Expected, MendError, keep, mend, shown as value},
    inventory::{Container, Locator, Pod},
    node::pressure_killer,
    probe::LimitKind,
    shrink::{self, Bus, Cancel, Confirmed, Observer, run_confirmed},
};
use enforcer_gate::{Bytes, Certificate, Limit, Policy, Request, Verdict};
use std::{future::pending, path::Path, pin::pin, sync::Arc};

/// Calls of the runtime's between the gate's commit and the end of its session, each with its deadline.
const CALLS_MAX: u32 = 3;

/// Resizes containers through one runtime. A clone shares the connection.
#[derive(Debug, Clone)]
pub struct Actor {
    client: Client,
    locator: Locator,
}

/// What it takes to lower memory.
pub struct Gate<'a> {
    /// The kernel programs' events.
    pub bus: &'a Bus,
    /// The thresholds.
    pub policy: Policy,
    /// Where the journal lives.
    pub state_dir: StateDir,
    /// Sees what the gate does.
    pub observer: &'a mut dyn Observer,
    /// Ends it before its time; without one Ctrl-C and SIGTERM do.
    pub cancel: Option<Cancel>,
}

/// A pod and one of its containers.
#[derive(Debug, Clone, Copy)]
pub struct Of<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The container.
    pub container: &'a Container,
}

impl Actor {
    /// Through this connection, in this hierarchy of cgroups.
    pub fn new(client: Client, mount: Arc<Mount>) -> Self {
        Self { client, locator: Locator::new(mount) }
    }

    /// The same with a connection of its own, for another event loop.
    pub async fn connected(&self) -> Result<Self, ResizeError> {
        let client = Client::connect(self.client.socket(), self.client.deadline()).await?;
        Ok(Self { client, locator: self.locator.clone() })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn locator(&self) -> &Locator {
        &self.locator
    }

    /// How a container is.
    pub async fn look(&self, of: Of<'_>) -> Result<Look, ResizeError> {
        look(&self.client, &self.locator, of.pod, of.container).await
    }

    /// Lowers a container's memory limit, if the gate lets it. [`Outcome::certificate`] is there in any case but one:
    /// the limit in force is the one asked for already.
    pub async fn shrink(
        &self,
        container: &Container,
        pod: &Pod,
        to: Bytes,
        via: Via,
        gate: Gate<'_>,
    ) -> Result<Outcome, ResizeError> {
        let ask = Ask { memory: Some(Limit::Bytes(to.page_floor())), ..Ask::default() };
        self.resize(Of { pod, container }, &ask, via, Some(gate)).await
    }

    /// Looks, plans and carries out.
    pub async fn resize(
        &self,
        of: Of<'_>,
        ask: &Ask,
        via: Via,
        gate: Option<Gate<'_>>,
    ) -> Result<Outcome, ResizeError> {
        let cancel = gate.as_ref().and_then(|gate| gate.cancel.as_ref());
        let look = unless_stopped(cancel, self.look(of)).await.ok_or(ResizeError::Stopped)??;
        let plan = plan(ask, &look, via)?;
        self.carry_out(of, &plan, gate).await
    }

    /// Carries a plan out, and reads back where the limits act.
    pub async fn carry_out(
        &self,
        of: Of<'_>,
        plan: &Plan,
        mut gate: Option<Gate<'_>>,
    ) -> Result<Outcome, ResizeError> {
        let mut outcome = Outcome { notes: plan.notes.clone(), ..Outcome::default() };
        let mount = self.locator.mount();
        for step in &plan.steps {
            match step {
                Step::RaisePod(set) | Step::Set(set) | Step::LowerPod(set) => {
                    self::set(mount, set).await?;
                    outcome.set.push(set.clone());
                }
                Step::Shrink { cgroup, to, .. } => {
                    let gate = gate.as_mut().ok_or(ResizeError::NoGate)?;
                    let cgroup = Cgroup::open_in(mount, cgroup)?;
                    let update = plan.update();
                    let (certificate, told) = self.lower(&cgroup, *to, gate, of, update).await?;
                    let is_done = certificate.verdict == Verdict::Committed;
                    outcome.certificate = Some(certificate);
                    outcome.told = told;
                    if !is_done {
                        if outcome.told.as_ref().is_some_and(Told::is_taken) {
                            let text = "the runtime has the new limit, and the kernel has the old one again";
                            outcome.notes.push(text.into());
                        }
                        break;
                    }
                    if update.is_none() {
                        hold(&cgroup, &mut outcome).await?;
                    }
                }
                Step::Update(sent) if outcome.told.is_none() => {
                    let cancel = gate.as_ref().and_then(|gate| gate.cancel.clone());
                    let stop = pin!(stopped(cancel));
                    let in_force = || self.in_force(of);
                    let told = tell(&self.client, &of.container.id, sent, plan.wanted.memory, in_force, stop);
                    outcome.told = Some(told.await);
                }
                // It was told under the gate.
                Step::Update(_) => {}
                Step::ShrinkPod { cgroup, to, .. } => {
                    let gate = gate.as_mut().ok_or(ResizeError::NoGate)?;
                    let cgroup = Cgroup::open_in(mount, cgroup)?;
                    let (certificate, _) = self.lower(&cgroup, *to, gate, of, None).await?;
                    if certificate.verdict == Verdict::Committed {
                        hold(&cgroup, &mut outcome).await?;
                    } else {
                        outcome.notes.push(format!("the pod's limit stays: {}", shown(cgroup.path())));
                    }
                    outcome.pod_certificate = Some(certificate);
                }
            }
            if outcome.told.as_ref().is_some_and(|told| !told.is_taken()) {
                break;
            }
        }
        if outcome.told.as_ref().is_some_and(|told| !told.is_taken()) {
            let raised = plan.steps.iter().filter_map(|step| match step {
                Step::RaisePod(set) => Some(set),
                Step::Shrink { .. }
                | Step::Update(_)
                | Step::Set(_)
                | Step::ShrinkPod { .. }
                | Step::LowerPod(_) => None,
            });
            outcome.notes.extend(raised.map(|set| {
                let (path, file) = (shown(&set.cgroup), set.file.name());
                format!("{file} of {path} was raised from {} and stays so", value(set.from))
            }));
        }
        let cancel = gate.as_ref().and_then(|gate| gate.cancel.as_ref());
        self.read_back(of, plan, &mut outcome, cancel).await;
        Ok(outcome)
    }

    /// One shrink through the gate, and within it the runtime's update.
    async fn lower(
        &self,
        cgroup: &Cgroup,
        to: Bytes,
        gate: &mut Gate<'_>,
        of: Of<'_>,
        update: Option<&LinuxContainerResources>,
    ) -> Result<(Certificate, Option<Told>), ResizeError> {
        let mut session = SessionOptions::of(&gate.policy);
        session.deadline = session.deadline.saturating_add(self.client.deadline().saturating_mul(CALLS_MAX));
        let request = Request {
            target: to,
            dry_run: false,
            pressure_killer: pressure_killer(cgroup)?,
            by_other: false,
        };
        let plan = shrink::Plan {
            cgroup: cgroup.clone(),
            request,
            policy: gate.policy.clone(),
            state_dir: Some(gate.state_dir.clone()),
            session,
            cancel: gate.cancel.clone(),
        };
        let mut told = None;
        let confirm = async |_: &Certificate, stop: std::pin::Pin<&mut dyn Future<Output = ()>>| {
            let Some(sent) = update else { return Confirmed::Keep };
            let (wanted, in_force) = (Some(Limit::Bytes(to.page_floor())), || cgroup.limit("memory.max"));
            let said = tell(&self.client, &of.container.id, sent, wanted, in_force, stop).await;
            told.insert(said).confirmed()
        };
        let (certificate, _) = run_confirmed(plan, gate.bus, gate.observer, confirm).await?;
        if let Some(Told::Refused(_)) = &told {
            // It may have told systemd before it failed.
            let cgroup = cgroup.clone();
            let kept = tokio::task::spawn_blocking(move || keep(&cgroup, LimitKind::MemoryMax)).await;
            drop(kept.map_err(|_| ResizeError::Thread)?);
        }
        Ok((certificate, told))
    }

    /// Where the limits act. What can't be read is told and is no reason to lose what was done.
    async fn read_back(&self, of: Of<'_>, plan: &Plan, outcome: &mut Outcome, cancel: Option<&Cancel>) {
        let sent = plan.update().map_or(0, |sent| sent.memory_limit_in_bytes);
        let is_told = outcome.told.is_none() || outcome.told.as_ref().is_some_and(Told::is_taken);
        let is_whole = outcome.certificate.as_ref().is_none_or(|found| found.verdict == Verdict::Committed);
        // A runtime that hangs must not keep who wants it to stop.
        let look = unless_stopped(cancel, self.look(of)).await;
        match look.unwrap_or(Err(ResizeError::Stopped)) {
            Ok(after) => {
                if is_told && is_whole {
                    outcome.mismatches = mismatches(&plan.wanted, &after, sent);
                }
                outcome.after = Some(after);
            }
            Err(error) => {
                // The runtime hangs: the files tell what is in force all the same.
                outcome.after = self.files(of).ok();
                let text = format!("the runtime could not be asked how it is now: {error}");
                outcome.notes.push(text.clone());
                if is_told && is_whole {
                    outcome.mismatches.push(text);
                }
            }
        }
    }

    /// The memory limit in force.
    fn in_force(&self, of: Of<'_>) -> Result<Limit, CgroupError> {
        // Without a home no container gets this far.
        let Ok(home) = &of.container.home else { return Ok(Limit::Bytes(Bytes::ZERO)) };
        crate::inventory::in_force(self.locator.mount(), home).map(|found| found.limit)
    }

    /// The cgroups alone, as they were found.
    fn files(&self, of: Of<'_>) -> Result<Look, ResizeError> {
        let home = of.container.home.as_ref().map_err(|why| ResizeError::NoHome(why.clone()))?;
        let force = crate::inventory::in_force(self.locator.mount(), home)?;
        look_at(&Cgroup::open_in(self.locator.mount(), &force.cgroup)?)
    }
}

/// What comes of the work; `None` where it was to stop before.
async fn unless_stopped<T>(cancel: Option<&Cancel>, work: impl Future<Output = T>) -> Option<T> {
    match cancel {
        Some(cancel) => tokio::select! {
            done = work => Some(done),
            () = cancel.cancelled() => None,
        },
        None => Some(work.await),
    }
}

/// Changes a cgroup that is not asked for as a container's.
pub async fn resize_cgroup(
    cgroup: &Cgroup,
    ask: &Ask,
    gate: Option<Gate<'_>>,
) -> Result<Outcome, ResizeError> {
    let plan = plan_cgroup(cgroup, ask)?;
    let mut outcome = Outcome { notes: plan.notes.clone(), ..Outcome::default() };
    let mut gate = gate;
    for step in &plan.steps {
        match step {
            Step::Set(set) | Step::RaisePod(set) | Step::LowerPod(set) => {
                self::set(cgroup.mount(), set).await?;
                outcome.set.push(set.clone());
            }
            Step::Shrink { to, .. } | Step::ShrinkPod { to, .. } => {
                let gate = gate.as_mut().ok_or(ResizeError::NoGate)?;
                let request = Request {
                    target: *to,
                    dry_run: false,
                    pressure_killer: pressure_killer(cgroup)?,
                    by_other: false,
                };
                let plan = shrink::Plan {
                    cgroup: cgroup.clone(),
                    request,
                    policy: gate.policy.clone(),
                    state_dir: Some(gate.state_dir.clone()),
                    session: SessionOptions::of(&gate.policy),
                    cancel: gate.cancel.clone(),
                };
                let certificate = shrink::run(plan, gate.bus, gate.observer).await?;
                let is_done = certificate.verdict == Verdict::Committed;
                outcome.certificate = Some(certificate);
                if !is_done {
                    break;
                }
                hold(cgroup, &mut outcome).await?;
            }
            // There is no runtime.
            Step::Update(_) => {}
        }
    }
    let after = look_at(cgroup)?;
    if outcome.certificate.as_ref().is_none_or(|found| found.verdict == Verdict::Committed) {
        outcome.mismatches = mismatches(&plan.wanted, &after, 0);
    }
    outcome.after = Some(after);
    Ok(outcome)
}

/// The plan for a cgroup that is not asked for as a container's.
pub fn plan_cgroup(cgroup: &Cgroup, ask: &Ask) -> Result<Plan, ResizeError> {
    Ok(plan(ask, &look_at(cgroup)?, Via::Cgroup)?)
}

/// Ends when the handle is used.
async fn stopped(cancel: Option<Cancel>) {
    match cancel {
        Some(cancel) => cancel.cancelled().await,
        None => pending().await,
    }
}

/// Sets a file that is no memory limit to be lowered, through systemd where it is a unit's.
async fn set(mount: &Arc<Mount>, set: &Set) -> Result<(), ResizeError> {
    let cgroup = Cgroup::open_in(mount, &set.cgroup)?;
    let (file, value) = (set.file, Expected::Value(set.to));
    let done = tokio::task::spawn_blocking(move || mend(&cgroup, file, &value)).await;
    let done = done.map_err(|_| ResizeError::Thread)?;
    done.map(drop).map_err(|source| set_error(&set.cgroup, file, source))
}

fn set_error(cgroup: &Path, file: LimitKind, source: MendError) -> ResizeError {
    ResizeError::Set { cgroup: shown(cgroup), file: file.name(), source }
}

/// Has systemd hold a limit that the gate has lowered, where it is a unit's.
async fn hold(cgroup: &Cgroup, outcome: &mut Outcome) -> Result<(), ResizeError> {
    let own = cgroup.clone();
    let held = tokio::task::spawn_blocking(move || keep(&own, LimitKind::MemoryMax)).await;
    if let Err(error) = held.map_err(|_| ResizeError::Thread)? {
        let path = shown(cgroup.path());
        outcome
            .notes
            .push(format!("systemd does not know of the limit of {path} and puts its own back: {error}"));
    }
    Ok(())
}
