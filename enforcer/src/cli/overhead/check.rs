//! `enforcer overhead check`: what `RuntimeClass`es declare, held against a measurement.

use super::{
    measure::{self, How},
    report, stored,
};
use crate::{
    cgroup::shown,
    cli::{
        Exit, Failure, json,
        options::{self, Json},
        print,
        table::{Align, table},
    },
    overhead::{
        Run,
        check::{Checked, Ground, Judged, Needs, Oom, Size, check},
        declared::{Declared, Found, TEXT_BYTES_MAX, declared},
    },
    quantity::exact,
};
use enforcer_gate::Bytes;
use serde::Serialize;
use std::{
    fmt::Write as _,
    fs::File,
    io::{Read, stdin},
    path::{Path, PathBuf},
};

const WHAT: &str = "can't check what is declared";
const READ: &str = "can't check what is declared: can't read";
/// Names of classes that an error lists.
const NAMED_MAX: usize = 20;

/// Says whether what a `RuntimeClass` declares is enough, and not far too much
///
/// Takes `overhead.podFixed` from a file of YAML or JSON, such as `kubectl get runtimeclass -o yaml` prints, and holds it
/// against a measurement that was kept, or one that is made now. Exit codes: 0 fits, 3 the measurement is inconclusive or
/// partial, 4 the node does not confirm it, 5 too small, 6 too large; of several the first of 5, 4, 3, 6.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Where the classes are: documents or lists, other kinds are passed over; - is the standard input
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// The class to be checked; by default all with the measurement's handler
    #[arg(long, value_name = "NAME")]
    runtime_class: Option<String>,
    /// What measure --output json has written; by default a measurement is made now
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
    /// The sum of the memory limits of a pod's containers, which counts where they share a virtual machine's memory
    #[arg(long, value_name = "QUANTITY", value_parser = options::target)]
    limits: Option<Bytes>,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    json: Json,
}

/// What is said of one class.
#[derive(Debug, Clone, Copy, Serialize)]
struct Class<'a> {
    name: &'a str,
    handler: &'a str,
    #[serde(flatten)]
    checked: Checked,
}

/// What it was held against.
#[derive(Debug, Serialize)]
struct Measurement<'a> {
    runtime: &'a str,
    handler: &'a str,
    kernel: &'a str,
    partial: Option<&'a str>,
    verdict: Option<&'static str>,
    needs: Option<Needs>,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    measurement: Measurement<'a>,
    classes: &'a [Class<'a>],
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let found = read(&options.file)?;
    let name = options.runtime_class.as_deref();
    let (classes, run) = if let Some(file) = &options.measured {
        let run = stored::read(READ, file)?;
        let handler = Some(run.handler.as_str()).filter(|handler| !handler.is_empty());
        (pick(&found, name, handler, true)?, run)
    } else {
        let classes = pick(&found, name, None, false)?;
        let plan = measure::plan(WHAT, &classes[0].handler, &options.how)?;
        (classes, measure::carried_out(WHAT, &plan, &options.how)?)
    };
    let limits = options.limits.unwrap_or(Bytes::ZERO);
    let Some(needs) = Needs::of(&run) else {
        print(&told(options.json.json, &run, None, &[]))?;
        return Ok(Exit::Inconclusive);
    };
    let classes: Vec<Class<'_>> = classes
        .into_iter()
        .map(|class| Class {
            name: &class.name,
            handler: &class.handler,
            checked: check(class, &needs, limits),
        })
        .collect();
    print(&told(options.json.json, &run, Some(needs), &classes))?;
    Ok(exit(&classes, measure::exit(&run)))
}

/// Too small is so by whatever was found; that all is well takes a measurement that is confirmed.
fn exit(classes: &[Class<'_>], measured: Exit) -> Exit {
    if classes.iter().any(|class| class.checked.is_too_small()) {
        Exit::TooSmall
    } else if measured != Exit::Done {
        measured
    } else if classes.iter().any(|class| class.checked.is_too_large()) {
        Exit::TooLarge
    } else {
        Exit::Done
    }
}

fn read(path: &Path) -> Result<Found, Failure> {
    let fail = |exit, error: &dyn std::fmt::Display, todo: &str| Failure::new(exit, READ, path, error, todo);
    let reader: Box<dyn Read> = if path == Path::new("-") {
        Box::new(stdin().lock())
    } else {
        Box::new(File::open(path).map_err(|error| fail(Exit::Failed, &error, "name a file of YAML or JSON"))?)
    };
    let mut text = String::new();
    let bytes_max = u64::try_from(TEXT_BYTES_MAX).unwrap_or(u64::MAX);
    let whole = reader.take(bytes_max.saturating_add(1)).read_to_string(&mut text);
    whole.map_err(|error| fail(Exit::Failed, &error, "name a file of YAML or JSON"))?;
    declared(&text).map_err(|error| {
        fail(Exit::Usage, &error, "kubectl get runtimeclass -o yaml prints what the cluster has")
    })
}

/// The classes that are meant: of one name, or of the measurement's handler. Without a measurement all must be of one.
fn pick<'a>(
    found: &'a Found,
    name: Option<&str>,
    handler: Option<&str>,
    is_measured: bool,
) -> Result<Vec<&'a Declared>, Failure> {
    let usage = |why: String, todo: &str| Err(Failure::new(Exit::Usage, WHAT, "", &why, todo));
    let named = || names(found.classes.iter());
    let chosen: Vec<&Declared> = match name {
        Some(name) => found.classes.iter().filter(|class| class.name == name).collect(),
        None if is_measured && handler.is_none() => {
            return usage(
                "the measurement is of the runtime's default handler, whose name it does not have".into(),
                "name the class: --runtime-class NAME",
            );
        }
        None => found
            .classes
            .iter()
            .filter(|class| handler.is_none_or(|handler| handler == class.handler))
            .collect(),
    };
    let Some(first) = chosen.first() else {
        let why = match (name, handler) {
            _ if found.classes.is_empty() => "there is no RuntimeClass in the file".to_owned(),
            (Some(name), _) => {
                format!("there is no RuntimeClass {} in the file, but {}", shown(name), named())
            }
            (None, handler) => {
                let handler = shown(handler.unwrap_or_default());
                format!(
                    "no RuntimeClass in the file has the measurement's handler {handler}; there are {}",
                    named()
                )
            }
        };
        return usage(why, "name a file with the class, or the class: --runtime-class NAME");
    };
    if let Some(handler) = handler.filter(|handler| *handler != first.handler) {
        let (handler, of_class) = (shown(handler), shown(&first.handler));
        let why = format!("the measurement is of handler {handler}, the class is of {of_class}");
        return usage(why, "measure with --runtime-handler as the class has it");
    }
    if handler.is_none() && chosen.iter().any(|class| class.handler != first.handler) {
        let why = format!("the file has classes of several handlers: {}", named());
        return usage(why, "name the one to measure: --runtime-class NAME");
    }
    Ok(chosen)
}

/// As many as a person reads.
fn names<'a>(classes: impl Iterator<Item = &'a Declared>) -> String {
    let all: Vec<String> =
        classes.map(|class| format!("{} ({})", shown(&class.name), shown(&class.handler))).collect();
    let more = all.len().saturating_sub(NAMED_MAX);
    let list = all[..all.len() - more].join(", ");
    if more > 0 { format!("{list} and {more} more") } else { list }
}

fn told(as_json: bool, run: &Run, needs: Option<Needs>, classes: &[Class<'_>]) -> String {
    if !as_json {
        return text(run, classes);
    }
    let verdict = run.result.as_ref().map(|result| result.acceptance.verdict.name());
    let measurement = Measurement {
        runtime: &run.runtime,
        handler: &run.handler,
        kernel: &run.kernel,
        partial: run.partial.as_deref(),
        verdict,
        needs,
    };
    json::line(&Document { measurement, classes })
}

fn text(run: &Run, classes: &[Class<'_>]) -> String {
    let mut text = format!(
        "measured with {}, handler {}, Linux {}\n",
        shown(&run.runtime),
        report::handler(&run.handler),
        shown(&run.kernel)
    );
    // Writing to a String can't fail.
    if let Some(why) = &run.partial {
        let _ = writeln!(text, "PARTIAL: {}", shown(why));
    }
    match &run.result {
        Some(result) => {
            let _ = writeln!(text, "{}", report::verdict(&result.acceptance));
        }
        None => text.push_str("inconclusive: there are too few readings to hold anything against\n"),
    }
    for class in classes {
        let _ = writeln!(text, "\nRuntimeClass {}, handler {}", shown(class.name), shown(class.handler));
        text.push_str(&amounts(&class.checked));
        if let Some(oom) = class.checked.oom {
            let _ = writeln!(text, "  {}", forecast(oom));
        }
    }
    text
}

fn amounts(checked: &Checked) -> String {
    let memory = |amount: u64| exact(Bytes::new(amount));
    let cpu = |amount: u64| format!("{amount}m");
    let row = |name: &str, judged: &Judged, of: &dyn Fn(u64) -> String, needed: &dyn Fn(u64) -> String| {
        let declared = judged.declared.map_or_else(|| "-".into(), of);
        let says = match judged.size {
            Size::Fits => judged.size.name().to_owned(),
            Size::TooSmall | Size::TooLarge | Size::Undeclared => {
                format!("{}: {} would do", judged.size.name(), of(judged.would_do))
            }
        };
        [name.into(), declared, needed(judged.needed), says]
    };
    let head = ["", "DECLARED", "NEEDED (p95)", ""].map(String::from);
    let mut rows = vec![head, row("memory", &checked.memory, &memory, &mib_up)];
    rows.extend(checked.cpu.as_ref().map(|judged| row("cpu", judged, &cpu, &cpu)));
    table(2, [Align::Left, Align::Right, Align::Right, Align::Left], &rows)
}

/// What is needed, rounded up, so that a number that is less is seen to be less.
fn mib_up(bytes: u64) -> String {
    let hundredths = (u128::from(bytes) * 100).div_ceil(1 << 20);
    format!("{}.{:02}Mi", hundredths / 100, hundredths % 100)
}

fn forecast(oom: Oom) -> String {
    let Oom { ground, holds, room } = oom;
    match ground {
        Ground::Kept => format!(
            "OOM: with its containers at their limits the pod's cgroup holds {holds} beyond them that can't be \
             reclaimed (p99), and podFixed leaves {room} for it"
        ),
        Ground::Machine => format!(
            "OOM: the virtual machine in the pod's cgroup has {holds}, which its guest may come to fill, and the pod's \
             limit (its containers' and podFixed) is {room}"
        ),
        Ground::Peak => format!(
            "OOM possible: the pod's cgroup had at most {holds} beyond its containers (memory.peak), and podFixed leaves \
             {room}; how much of that was page cache, which goes first, is not known"
        ),
    }
}

#[cfg(test)]
mod tests;
