//! `enforcer overhead measure`.

use super::{Form, client, failed, node, report, tokio};
use crate::{
    cgroup::shown,
    cli::{Exit, Failure, options, output::aside, print},
    overhead::{
        driver::Driver,
        fit::Verdict,
        image::END,
        model::Run,
        phase::Phase,
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
    #[command(flatten)]
    how: How,
    /// Only say what would be made
    #[arg(long)]
    plan: bool,
    /// What to print: a table, JSON with every sample, a `RuntimeClass`, or a page with charts
    #[arg(long, value_name = "FORM", default_value = "table")]
    output: Form,
}

/// How is measured.
#[derive(Debug, clap::Args)]
pub(super) struct How {
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
    /// What the pods do meanwhile: wait, have a command run in them every second as an exec probe is, or work
    #[arg(long, value_name = "PHASE", default_value = "idle")]
    phase: Phase,
    /// What --phase exec-probe runs, word by word; the image that is made on the spot has its own
    #[arg(long, value_name = "WORD", num_args = 1.., value_terminator = ";")]
    probe: Vec<String>,
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
    #[command(flatten)]
    cri: options::Cri,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let plan = plan(WHAT, &options.runtime_handler, &options.how)?;
    if options.plan {
        print(&report::plan(&plan))?;
        return Ok(Exit::Done);
    }
    let run = carried_out(WHAT, &plan, &options.how)?;
    print(&options.output.of(&run))?;
    Ok(exit(&run))
}

/// Measures.
pub(super) fn carried_out(what: &str, plan: &Plan, how: &How) -> Result<Run, Failure> {
    let (socket, mount) = node(what, &how.cri)?;
    let _turn = Turn::take(&socket).map_err(|error| failed(what, &error))?;
    tokio(what)?.block_on(async {
        let stop = stopped().map_err(|error| Failure::new(Exit::Failed, what, "", &error, ""))?;
        let client = client(what, &how.cri, &socket).await?;
        let say = |text: &str| aside(&format!("{text}\n"));
        measure(&client, &mount, plan, &say, stop).await.map_err(|error| failed(what, &error))
    })
}

/// What is to be measured.
pub(super) fn plan(what: &str, handler: &str, how: &How) -> Result<Plan, Failure> {
    let usage = |why: &str, todo: &str| Failure::new(Exit::Usage, what, "", &why, todo);
    let mut sizes = how.steps.clone();
    if sizes.is_empty() {
        sizes = step::sizes(how.pods);
    }
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 2 {
        return Err(usage("steps of one size have no slope", "give two sizes or more: --steps 0,5,10"));
    }
    if sizes.len() > SIZES_MAX {
        return Err(usage("there are too many sizes", "give 32 or fewer"));
    }
    if handler.chars().any(|c| !c.is_ascii_graphic()) {
        let on = shown(handler);
        return Err(usage(&format!("{on} is no handler"), "name it as the runtime's configuration does"));
    }
    let is_own = how.image.is_none();
    let probe = match how.probe.as_slice() {
        [] if is_own => END.map(String::from).into(),
        [] if how.phase == Phase::ExecProbe => {
            return Err(usage(
                "it is not known what to run in that image",
                "give a command: --probe /bin/true",
            ));
        }
        words if is_own && !words.is_empty() => {
            return Err(usage("the image that is made on the spot has one program", "name one with --image"));
        }
        words => words.to_vec(),
    };
    let drawn = || RandomState::new().build_hasher().finish();
    Ok(Plan {
        handler: handler.into(),
        sizes,
        repetitions: how.repetitions,
        settle: duration(how.settle),
        duration: duration(how.duration),
        phase: how.phase,
        probe,
        image: how.image.clone(),
        driver: how.cgroup_driver,
        margin: how.margin,
        seed: how.seed.unwrap_or_else(drawn),
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

/// How a measurement ends.
pub(super) fn exit(run: &Run) -> Exit {
    let verdict = run.result.as_ref().map(|result| result.acceptance.verdict);
    match verdict {
        _ if run.partial.is_some() => Exit::Inconclusive,
        None | Some(Verdict::Inconclusive) => Exit::Inconclusive,
        Some(Verdict::Accepted) => Exit::Done,
        Some(Verdict::Unexplained) => Exit::Unexplained,
    }
}
