//! Stands guard until it is told to stop.

use super::{
    Options,
    line::line,
    options::{Action, Stand},
    status,
};
use crate::cgroup::{Cgroup, CgroupError, Mount, shown};
use crate::cli::{Exit, Failure, failure, json, output, screen::Screen, stop::end_at_once};
use crate::guard::{Guard, GuardError, GuardOptions, Reason};
use crate::node::Need;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

const WHAT: &str = "can't guard";
const NEEDS: [Need; 4] = [Need::Root, Need::CgroupV2Memory, Need::WritableCgroups, Need::Btf];
/// Time between two beats: several fit into what makes the guard stale.
const BEAT: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct Posted {
    armed: bool,
    mode: &'static str,
    cgroups: usize,
    below: usize,
    margin: enforcer_gate::Bytes,
    files: Vec<&'static str>,
    /// Ancestors of what is guarded that are not guarded themselves.
    unguarded_above: Vec<String>,
}

pub(in crate::cli) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Some(Action::Status(json)) => status::run(json.json),
        None => stand(&options.stand),
    }
}

/// A cgroup that was named.
struct Post {
    cgroup: Cgroup,
    /// It is guarded itself.
    own: bool,
    /// What is below it is guarded.
    below: bool,
}

#[derive(Serialize)]
struct Gone {
    gone: String,
    cgroup_id: u64,
}

#[derive(Serialize)]
struct Dropped {
    dropped: u64,
}

/// The cgroups that were named, each once.
fn posts(options: &Stand) -> Result<Vec<Post>, Failure> {
    let mut posts: Vec<Post> = Vec::new();
    let own = options.cgroups.iter().map(|path| (path, true));
    for (path, own) in own.chain(options.all_below.iter().map(|path| (path, false))) {
        let cgroup = Cgroup::open(path).map_err(|error| Failure::cgroup(WHAT, path, &error))?;
        if own && cgroup.limit("memory.max").is_err() {
            return Err(Failure::cgroup(WHAT, path, &cgroup.why_no_memory()));
        }
        match posts.iter_mut().find(|post| post.cgroup.id() == cgroup.id()) {
            Some(post) => (post.own, post.below) = (post.own || own, post.below || !own),
            None => posts.push(Post { cgroup, own, below: !own }),
        }
    }
    Ok(posts)
}

fn stand(options: &Stand) -> Result<Exit, Failure> {
    let first = options.cgroups.iter().chain(&options.all_below).next();
    let Some(first) = first else {
        let todo = "name a cgroup, or --all-below DIR";
        return Err(Failure::new(Exit::Usage, WHAT, "", &"no cgroup is named", todo));
    };
    failure::require(WHAT, first, &NEEDS)?;
    let posts = posts(options)?;
    let mount = Mount::discover().map_err(|error| Failure::cgroup(WHAT, first, &error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, WHAT, first, &error, ""))?;
    let above = unguarded_above(&posts).map_err(|error| Failure::cgroup(WHAT, first, &error))?;
    if !above.is_empty() && !options.json.json {
        // Where standard error is closed nobody wants to know.
        let _ = writeln!(
            std::io::stderr(),
            "warning: not guarded: {}; a lower limit there kills inside all the same: name what may be lowered",
            above.join(", ")
        );
    }
    // The beat must not wait for whoever reads.
    let mut screen = output::screen(options.json.json)
        .map_err(|error| Failure::new(Exit::Failed, WHAT, first, &error, ""))?;
    let mut last = String::new();
    let armed = armed(options, &posts, above);
    let ended = runtime.block_on(watch(options, posts, &mount, armed, &mut screen, &mut last));
    end_at_once();
    let told = output::end(screen, &last, Exit::Done);
    ended.map_err(|error| explain(first, &error)).and(told)
}

/// The ancestors of what is guarded that are not guarded themselves, each once: their limits hold inside as well.
fn unguarded_above(posts: &[Post]) -> Result<Vec<String>, CgroupError> {
    let guarded = |cgroup: &Cgroup| {
        posts.iter().any(|post| {
            let itself = post.cgroup.id() == cgroup.id();
            if itself { post.own } else { post.below && cgroup.path().starts_with(post.cgroup.path()) }
        })
    };
    let mut above = Vec::new();
    for post in posts {
        // What is named for what is below it is above that.
        let itself = [post.cgroup.clone()].into_iter().filter(|cgroup| !cgroup.is_root());
        for cgroup in itself.chain(post.cgroup.ancestors()?) {
            let name = shown(cgroup.path());
            if !guarded(&cgroup) && cgroup.limit("memory.max").is_ok() && !above.contains(&name) {
                above.push(name);
            }
        }
    }
    Ok(above)
}

/// Until told to stop; what is left to tell goes into `last`.
async fn watch(
    options: &Stand,
    mut posts: Vec<Post>,
    mount: &Mount,
    armed: String,
    screen: &mut Screen,
    last: &mut String,
) -> Result<(), GuardError> {
    let wait = |error| GuardError::Probe(crate::probe::ProbeError::Wait(error));
    let mut interrupted = signal(SignalKind::interrupt()).map_err(wait)?;
    let mut ended = signal(SignalKind::terminate()).map_err(wait)?;
    output::loading(options.json.json);
    let mut guard = Guard::load(GuardOptions::default())?;
    if let Some(cgroup) = posts.iter().find_map(|post| to_look_at(&post.cgroup)) {
        guard.look_at(&cgroup)?;
    }
    for Post { cgroup, own, below } in &posts {
        guard.cover(cgroup.id(), &options.cover(*own, *below))?;
    }
    guard.beat()?;
    screen.show(armed);
    let mut beat = tokio::time::interval(BEAT);
    let stopped = loop {
        tokio::select! {
            judged = guard.next() => {
                let judged = judged?;
                screen.show(line(&judged, mount, options.json.json));
                if judged.reason == Reason::Blind {
                    break Err(GuardError::Blind { what: "a cgroup's counters can't be read".into() });
                }
            }
            _ = beat.tick() => {
                guard.beat()?;
                guard.sweep()?;
                screen.tell_left_out();
                if dismiss(&mut guard, &mut posts, screen, options.json.json) {
                    break Ok(());
                }
            }
            _ = interrupted.recv() => break Ok(()),
            _ = ended.recv() => break Ok(()),
        }
    };
    guard.disarm()?;
    // What was judged until then is told.
    while let Some(judged) = guard.try_next() {
        last.push_str(&line(&judged?, mount, options.json.json));
    }
    let dropped = guard.dropped()?;
    match (dropped, options.json.json) {
        (0, _) => {}
        (dropped, true) => last.push_str(&json::line(&Dropped { dropped })),
        (dropped, false) => {
            // Writing to a String can't fail.
            let _ = writeln!(last, "{dropped} verdicts were not told: they came too fast");
        }
    }
    stopped
}

/// A cgroup with a limit to look at before anything depends on it: itself, or a child.
fn to_look_at(cgroup: &Cgroup) -> Option<Cgroup> {
    let has_limit = |cgroup: &Cgroup| cgroup.limit("memory.max").is_ok();
    if has_limit(cgroup) {
        return Some(cgroup.clone());
    }
    let children = std::fs::read_dir(cgroup.absolute()).ok()?.flatten();
    children.filter_map(|entry| Cgroup::open(&entry.path()).ok()).find(has_limit)
}

/// Guards no longer what is gone; whether nothing is left.
fn dismiss(guard: &mut Guard, posts: &mut Vec<Post>, screen: &mut Screen, as_json: bool) -> bool {
    posts.retain(|Post { cgroup, .. }| {
        let there = !matches!(cgroup.exists(), Ok(false));
        if !there {
            guard.uncover(cgroup.id());
            let gone = shown(cgroup.path());
            screen.show(if as_json {
                json::line(&Gone { gone, cgroup_id: cgroup.id().get() })
            } else {
                format!("gone: {gone}\n")
            });
        }
        there
    });
    posts.is_empty()
}

fn armed(options: &Stand, posts: &[Post], unguarded_above: Vec<String>) -> String {
    let cover = options.cover(true, false);
    let own = posts.iter().filter(|post| post.own).count();
    let below = posts.iter().filter(|post| post.below).count();
    let report = Posted {
        armed: true,
        mode: cover.mode.name(),
        cgroups: own,
        below,
        margin: cover.margin,
        files: cover.files.iter().map(|file| file.name()).collect(),
        unguarded_above,
    };
    if options.json.json {
        return json::line(&report);
    }
    let below = match report.below {
        0 => String::new(),
        1 => " and all below one more".into(),
        more => format!(" and all below {more} more"),
    };
    let cgroups = if own == 1 { "one cgroup".into() } else { format!("{own} cgroups") };
    format!(
        "armed ({}): {} of {cgroups}{below}, at least {} above usage; Ctrl-C ends it\n",
        report.mode,
        report.files.join(", "),
        report.margin,
    )
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
