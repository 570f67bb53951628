//! Stands guard until it is told to stop.

use super::{
    Options, log,
    options::{Action, Keep, Stand},
    posts::{posts, unguarded_above},
    report, status,
    watch::Watch,
};
use crate::cgroup::Mount;
use crate::cli::{Exit, Failure, failure, output, stop::end_at_once};
use crate::guard::GuardError;
use crate::guard::log::Log;
use crate::node::Need;
use crate::store::Bounds;
use std::path::Path;

const WHAT: &str = "can't guard";
const NEEDS: [Need; 4] = [Need::Root, Need::CgroupV2Memory, Need::WritableCgroups, Need::Btf];

pub(in crate::cli) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Some(Action::Status(json)) => status::run(json.json),
        Some(Action::Log(options)) => log::run(options),
        None => stand(&options.stand),
    }
}

fn stand(options: &Stand) -> Result<Exit, Failure> {
    let first = options.cgroups.iter().chain(&options.all_below).next();
    let Some(first) = first else {
        let todo = "name a cgroup, or --all-below DIR";
        return Err(Failure::new(Exit::Usage, WHAT, "", &"no cgroup is named", todo));
    };
    failure::require(WHAT, first, &NEEDS)?;
    let posts = posts(WHAT, options)?;
    let mount = Mount::discover().map_err(|error| Failure::cgroup(WHAT, first, &error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, WHAT, first, &error, ""))?;
    let above = unguarded_above(&posts).map_err(|error| Failure::cgroup(WHAT, first, &error))?;
    let log = open(&options.keep)?;
    if !above.is_empty() && !options.json.json {
        output::aside(&format!(
            "warning: not guarded: {}; a lower limit there kills inside all the same: name what may be lowered\n",
            above.join(", ")
        ));
    }
    // The beat must not wait for whoever reads.
    let screen = output::screen(options.json.json)
        .map_err(|error| Failure::new(Exit::Failed, WHAT, first, &error, ""))?;
    let armed = report::armed(options, &posts, above);
    let mut watch =
        Watch { options, mount: &mount, screen, log, last: String::new(), dropped: 0, stood: false };
    let ended = runtime.block_on(watch.run(posts, armed));
    end_at_once();
    let told = output::end(watch.screen, &watch.last, Exit::Done);
    ended.map_err(|error| explain(first, &error)).and(told)
}

/// Opens the store, if verdicts are to be kept. One that can't be written to is known before anything is armed.
fn open(options: &Keep) -> Result<Option<Log>, Failure> {
    let Keep { store, store_max, no_store } = options;
    if *no_store {
        return Ok(None);
    }
    Log::open(store, Bounds::within(store_max.get())).map(Some).map_err(|error| {
        let todo = failure::of_the_process(&error).unwrap_or_else(|| {
            "name another folder with --store, or keep no verdicts with --no-store".into()
        });
        Failure::new(Exit::Failed, "can't keep the guard's verdicts in", store, &error, todo)
    })
}

fn explain(on: &Path, error: &GuardError) -> Failure {
    let (exit, todo) = match error {
        GuardError::Probe(error) => return failure::probe(WHAT, on, error),
        GuardError::Cgroup(error) => return Failure::cgroup(WHAT, on, error),
        GuardError::NoBpfLsm { modules } => {
            return Failure::new(Exit::Unsupported, WHAT, on, error, format!("boot with lsm={modules},bpf"));
        }
        GuardError::NotTaken { .. } => (Exit::Unsupported, "enforcer check says what this node has"),
        GuardError::Blind { .. } => (Exit::Unsupported, "nothing is guarded; please report this as a bug"),
        GuardError::Full { .. } => (Exit::Usage, "name the folder above them with --all-below"),
        GuardError::List { .. } | GuardError::Map { .. } => (Exit::Failed, ""),
    };
    Failure::new(exit, WHAT, on, &failure::chain(error), todo)
}
