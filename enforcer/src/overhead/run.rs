//! A measurement: makes and removes pods step by step, reads until readings stay, and leaves nothing behind.

mod error;
mod reader;

pub use error::OverheadError;

use super::{
    driver::Driver,
    fit,
    model::{NodeSample, PodSample, Run, Start},
    phase::{Phase, Probing},
    pods::{Cleaned, Maker, Pod, Wanted, clean},
    step::{Settling, order},
};
use crate::{cgroup::Mount, clock, cri::Client};
use enforcer_gate::Bytes;
use nix::fcntl::{Flock, FlockArg};
use reader::{Reader, Used};
use std::{fs::File, path::Path, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// Of the JSON document.
pub const VERSION: u32 = 1;
/// Most pods at a time.
pub const PODS_MAX: u32 = 1000;
/// Readings of one step that are kept until it ends.
const READINGS_MAX: usize = 1000;
/// Looks at all pods in one step.
const LOOKS_MAX: usize = 60;
/// Between two readings.
const INTERVAL: Duration = Duration::from_millis(500);
/// Readings that lie no further apart are the same.
const BAND: Bytes = Bytes::new(512 << 10);

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The runtime's handler; empty for the default one.
    pub handler: String,
    /// Sizes of steps.
    pub sizes: Vec<u32>,
    /// How often each size comes.
    pub repetitions: u32,
    /// What readings may take to stay.
    pub settle: Duration,
    /// How long is read after that.
    pub duration: Duration,
    /// What the pods do.
    pub phase: Phase,
    /// What is run in their containers as a probe.
    pub probe: Vec<String>,
    /// The image; `None` for one made on the spot.
    pub image: Option<String>,
    /// The cgroup driver; `None` to be asked for.
    pub driver: Option<Driver>,
    /// The least that is added to the 95th percentile.
    pub margin: Bytes,
    /// What the order is drawn from.
    pub seed: u64,
}

impl Plan {
    /// The steps in their order.
    pub fn steps(&self) -> Vec<u32> {
        order(&self.sizes, self.repetitions, self.seed)
    }
}

/// Keeps others from measuring, or cleaning up, through the same runtime.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "held, not read")] Flock<File>);

impl Turn {
    /// Takes it: a lock on the folder that the runtime's socket is in, which leaves nothing behind.
    pub fn take(socket: &Path) -> Result<Self, OverheadError> {
        let folder = socket.parent().unwrap_or(Path::new("/"));
        let file = File::open(folder);
        let file = file.map_err(|source| OverheadError::Lock { folder: folder.into(), source })?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Self(lock)),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Err(OverheadError::Busy),
            Err((_, errno)) => Err(OverheadError::Lock { folder: folder.into(), source: errno.into() }),
        }
    }
}

/// Measures; what was made is removed again, whatever happens. `stop` turns true to end it early.
pub async fn measure(
    client: &Client,
    mount: &Arc<Mount>,
    plan: &Plan,
    say: &dyn Fn(&str),
    mut stop: watch::Receiver<bool>,
) -> Result<Run, OverheadError> {
    let version = client.version().await?;
    let id = format!("{:08x}", plan.seed >> 32);
    let mut run = Run {
        version: VERSION,
        id: id.clone(),
        runtime: format!(
            "{} {}",
            crate::cgroup::shown(&version.runtime_name),
            crate::cgroup::shown(&version.runtime_version)
        ),
        handler: plan.handler.clone(),
        kernel: clock::kernel_release(),
        seed: plan.seed,
        steps: plan.steps(),
        phase: plan.phase,
        starts: Vec::new(),
        pods: Vec::new(),
        nodes: Vec::new(),
        partial: None,
        result: None,
    };
    let measured = steps(client, mount, plan, say, &mut stop, &mut run).await;
    say("removing what was made");
    let cleaned = clean(client, mount, Some(&id)).await;
    match (measured, cleaned) {
        (Err(error), Ok(Cleaned { .. })) => Err(error),
        (Err(error), Err(left)) => Err(OverheadError::Both { error: Box::new(error), left: Box::new(left) }),
        (Ok(()), Err(left)) => Err(left),
        (Ok(()), Ok(Cleaned { .. })) => {
            run.result = fit::outcome(&run, plan.margin);
            Ok(run)
        }
    }
}

async fn steps(
    client: &Client,
    mount: &Arc<Mount>,
    plan: &Plan,
    say: &dyn Fn(&str),
    stop: &mut watch::Receiver<bool>,
    run: &mut Run,
) -> Result<(), OverheadError> {
    let mut reader = Reader::new(client.socket(), Arc::clone(mount)).await?;
    let wanted = Wanted {
        run: &run.id,
        handler: &plan.handler,
        driver: plan.driver,
        image: plan.image.as_deref(),
        phase: plan.phase,
    };
    let mut maker = Maker::new(client.clone(), Arc::clone(mount), wanted).await?;
    say("making a pod to warm up");
    let first = maker.make().await?;
    maker.remove(&first).await?;
    let mut pods: Vec<Pod> = Vec::new();
    let steps = run.steps.clone();
    for (step, size) in steps.iter().enumerate() {
        say(&format!("step {} of {}: {size} pods", step + 1, steps.len()));
        let wanted = usize::try_from(*size).unwrap_or(usize::MAX);
        while pods.len() != wanted {
            if *stop.borrow() {
                run.partial = Some(format!("stopped in step {} of {}", step + 1, steps.len()));
                return Ok(());
            }
            if pods.len() < wanted {
                let (before, pod) = (Instant::now(), maker.make().await?);
                let (cpu, peak) = reader.since_the_start(&pod, before)?;
                run.starts.extend(cpu.map(|cpu| Start { step, sandbox: pod.sandbox.clone(), cpu, peak }));
                pods.push(pod);
            } else {
                // The oldest: so no pod is older than the others by much.
                maker.remove(&pods.remove(0)).await?;
            }
        }
        let probing = (plan.phase == Phase::ExecProbe)
            .then(|| Probing::start(client, pods.iter().map(|pod| pod.container.clone()), &plan.probe));
        let settled = settled(&mut reader, (step, &pods), plan, stop).await?;
        let after = reader.used(&pods)?;
        let last = reader.pods(step, &pods)?;
        // No pod is removed while it is probed.
        let probes = match probing {
            Some(probing) => probing.end().await,
            None => 0,
        };
        let Some(Settled { node, before, looks }) = settled else {
            run.partial = Some(format!("stopped in step {} of {}", step + 1, steps.len()));
            return Ok(());
        };
        let node = NodeSample { step, pods: *size, made: maker.made(), probes, ..node };
        say(&format!(
            "  {} MiB left{}",
            node.left().get() >> 20,
            if node.unsettled { ", and still moving: a longer --settle may help" } else { "" }
        ));
        run.nodes.push(node);
        let samples = largest(last, looks).into_iter();
        run.pods.extend(samples.zip(reader::between(&before, &after)).map(|(sample, cpu)| sample.with(cpu)));
    }
    Ok(())
}

/// For each pod the look with the largest sum that is whole; looks have the same pods in the same order. So what lives for
/// a moment counts where it was seen at all.
fn largest(mut last: Vec<PodSample>, looks: Vec<Vec<PodSample>>) -> Vec<PodSample> {
    for look in looks {
        for (kept, other) in last.iter_mut().zip(look) {
            let is_more = other.total() > kept.total() || !kept.is_complete();
            if other.is_complete() && is_more {
                *kept = other;
            }
        }
    }
    last
}

/// What came of a step.
struct Settled {
    /// The reading in the middle.
    node: NodeSample,
    /// What pods had used of CPUs when readings began to stay.
    before: Used,
    /// Pods, again and again, where what they do changes from moment to moment.
    looks: Vec<Vec<PodSample>>,
}

/// Reads until readings stay, and goes on for the time that is wanted. `None`: it was told to stop.
async fn settled(
    reader: &mut Reader,
    (number, pods): (usize, &[Pod]),
    plan: &Plan,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<Settled>, OverheadError> {
    let begun = Instant::now();
    let mut settling = Settling::new(BAND);
    let mut stays = None;
    let mut readings: Vec<NodeSample> = Vec::new();
    let mut looks = Vec::new();
    let mut next = begun;
    loop {
        let reading = reader.node(pods)?;
        let now = Instant::now();
        if stays.is_none() {
            let is_late = now.duration_since(begun) >= plan.settle;
            if settling.add(reading.left()) || is_late {
                let unsettled = !settling.stays();
                stays = Some((now, unsettled, reader.used(pods)?));
            }
        }
        if let Some((since, unsettled, before)) = stays.take() {
            if readings.len() < READINGS_MAX {
                readings.push(NodeSample { unsettled, ..reading });
            }
            if plan.phase == Phase::ExecProbe && looks.len() < LOOKS_MAX {
                looks.push(reader.pods(number, pods)?);
            }
            if now.duration_since(since) >= plan.duration {
                readings.sort_by_key(NodeSample::left);
                let middle = readings.len() / 2;
                let node = readings.into_iter().nth(middle);
                return Ok(node.map(|node| Settled { node, before, looks }));
            }
            stays = Some((since, unsettled, before));
        }
        next = (next + INTERVAL).max(now);
        tokio::select! {
            () = sleep_until(next) => {}
            _ = stop.wait_for(|stop| *stop) => return Ok(None),
        }
    }
}
