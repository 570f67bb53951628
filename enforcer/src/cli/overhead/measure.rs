//! `enforcer overhead measure`.

use super::{Form, client, failed, node, report, tokio};
use crate::{
    cgroup::shown,
    cli::{Exit, Failure, options, output::aside, print},
    overhead::{
        driver::Driver,
        fit::Verdict,
        model::Run,
        run::{PODS_MAX, Plan, Turn, measure},
        step,
    },
};
use enforcer_gate::{Bytes, Micros};
use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

const WHAT: &str = "can't measure the overhead of pods";
/// Most rounds of all sizes.
const REPETITIONS_MAX: i64 = 100;
/// Most sizes.
const SIZES_MAX: usize = 32;

/// Measures the memory that a pod costs beyond its containers, and holds it against the node's own books
///
/// Makes pods of one container that waits through the container runtime, in steps of several sizes in a drawn order,
/// reads pods, helpers (shim, conmon, virtual machine) and `MemAvailable`, and removes everything again. The number is
/// accepted where the node's slope and the attributed sum lie within 15 % of each other, with an interval narrow enough
/// to say so. Exit codes: 0 accepted, 3 inconclusive or stopped early, 4 unexplained.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The runtime's handler (`handler` of a `RuntimeClass`); by default the runtime's own default
    #[arg(long, value_name = "HANDLER", default_value = "")]
    runtime_handler: String,
    /// The most pods at a time
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(PODS_MAX)))]
    pods: u32,
    /// The sizes of steps, such as 0,5,10; by default five from none to --pods
    #[arg(long, value_name = "N,N..", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(PODS_MAX)))]
    steps: Vec<u32>,
    /// How often each size comes
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=REPETITIONS_MAX))]
    repetitions: u32,
    /// What readings of a step may take until they stay
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = options::duration)]
    settle: Micros,
    /// How long each step is read after that
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = options::duration)]
    duration: Micros,
    /// The least that is added to the 95th percentile
    #[arg(long, value_name = "QUANTITY", default_value = "1Mi", value_parser = options::target)]
    margin: Bytes,
    /// An image whose program runs until it is ended; by default one is made on the spot, of one page
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// The runtime's cgroup driver; by default it is asked
    #[arg(long, value_name = "DRIVER")]
    cgroup_driver: Option<Driver>,
    /// What the order of the steps is drawn from; by default another each time
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Only say what would be made
    #[arg(long)]
    plan: bool,
    /// What to print: a table, JSON with every sample, a `RuntimeClass`, or a page with charts
    #[arg(long, value_name = "FORM", default_value = "table")]
    output: Form,
    #[command(flatten)]
    cri: options::Cri,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let plan = plan(options)?;
    if options.plan {
        print(&report::plan(&plan))?;
        return Ok(Exit::Done);
    }
    let (socket, mount) = node(WHAT, &options.cri)?;
    let _turn = Turn::take(&socket).map_err(|error| failed(WHAT, &error))?;
    let run = tokio(WHAT)?.block_on(async {
        let stop = stopped().map_err(|error| Failure::new(Exit::Failed, WHAT, "", &error, ""))?;
        let client = client(WHAT, &options.cri, &socket).await?;
        let say = |text: &str| aside(&format!("{text}\n"));
        measure(&client, &mount, &plan, &say, stop).await.map_err(|error| failed(WHAT, &error))
    })?;
    print(&options.output.of(&run))?;
    Ok(exit(&run))
}

fn plan(options: &Options) -> Result<Plan, Failure> {
    let usage = |why: &str, todo: &str| Failure::new(Exit::Usage, WHAT, "", &why, todo);
    let mut sizes = options.steps.clone();
    if sizes.is_empty() {
        sizes = step::sizes(options.pods);
    }
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 2 {
        return Err(usage("steps of one size have no slope", "give two sizes or more: --steps 0,5,10"));
    }
    if sizes.len() > SIZES_MAX {
        return Err(usage("there are too many sizes", "give 32 or fewer"));
    }
    if options.runtime_handler.chars().any(|c| !c.is_ascii_graphic()) {
        let on = shown(&options.runtime_handler);
        return Err(usage(&format!("{on} is no handler"), "name it as the runtime's configuration does"));
    }
    let drawn = || RandomState::new().build_hasher().finish();
    Ok(Plan {
        handler: options.runtime_handler.clone(),
        sizes,
        repetitions: options.repetitions,
        settle: duration(options.settle),
        duration: duration(options.duration),
        image: options.image.clone(),
        driver: options.cgroup_driver,
        margin: options.margin,
        seed: options.seed.unwrap_or_else(drawn),
    })
}

fn duration(span: Micros) -> Duration {
    Duration::from_micros(span.get())
}

/// Turns true with the first Ctrl-C or SIGTERM. What is being made then is removed, which is bounded: further ones
/// change nothing.
fn stopped() -> std::io::Result<watch::Receiver<bool>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (tell, told) = watch::channel(false);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            aside("stopping: what was made is removed first\n");
            tell.send_replace(true);
        }
    });
    Ok(told)
}

fn exit(run: &Run) -> Exit {
    let verdict = run.result.as_ref().map(|result| result.acceptance.verdict);
    match verdict {
        _ if run.partial.is_some() => Exit::Inconclusive,
        None | Some(Verdict::Inconclusive) => Exit::Inconclusive,
        Some(Verdict::Accepted) => Exit::Done,
        Some(Verdict::Unexplained) => Exit::Unexplained,
    }
}
