//! The same kills through `enforcer oom record`: what its store holds afterwards.

use super::{Counted, Options};
use anyhow::{Context, Result, bail, ensure};
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const ENFORCER: &str = "/bin/enforcer";

pub(super) fn count(options: &Options) -> Result<Counted> {
    let cgroup = Scratch::new("oom-recorder");
    cgroup.write("memory.max", "16M");
    cgroup.write("memory.swap.max", "0");
    let store = tempfile::tempdir_in(&options.dir)?;
    let mut recorder = Command::new(ENFORCER)
        .args(["oom", "record", "--json", "--ring", &options.ring.to_string(), "--store"])
        .arg(store.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("start the recorder")?;
    let died = watch(&mut recorder, &cgroup, options);
    if died.is_err() {
        drop(recorder.kill());
        drop(recorder.wait());
    }
    let died = died?;
    let (records, dropped) = stored(store.path(), cgroup.id())?;
    Ok(Counted { died, oom_kill: cgroup.kills(), records, dropped })
}

/// The kills, and the recorder's end; how many died by their wait status.
fn watch(recorder: &mut Child, cgroup: &Scratch, options: &Options) -> Result<u64> {
    let mut lines = BufReader::new(recorder.stdout.take().context("stdout is a pipe")?).lines();
    lines.next().context("the recorder ended before it began")??;
    // What it prints is not what counts, but it has to go somewhere.
    let rest = std::thread::spawn(move || lines.map_while(Result::ok).count());
    let line = format!("kill-loop --n {} --parallel {} --size 64Mi", options.count, options.parallel);
    let mut workload = Workload::launch(&options.workload, cgroup, &line);
    let died = loop {
        let line = workload.line();
        ensure!(!line.is_empty(), "the workload gave no count");
        if let Some(died) = line.strip_prefix("kill-loop killed ") {
            break died.split(' ').next().and_then(|died| died.parse().ok()).context("no count")?;
        }
    };
    kill(Pid::from_raw(i32::try_from(recorder.id())?), Signal::SIGINT)?;
    ensure!(recorder.wait()?.success(), "the recorder failed");
    if rest.join().is_err() {
        bail!("the reader panicked");
    }
    Ok(died)
}

/// Victims of a cgroup's limit in the store, and what it says was lost.
fn stored(store: &Path, cgroup: u64) -> Result<(u64, u64)> {
    let output = Command::new(ENFORCER).args(["oom", "--json", "--store"]).arg(store).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut victims, mut lost) = (0, 0);
    for line in output.stdout.lines() {
        let line: Value = serde_json::from_str(&line?)?;
        let oom = &line["oom"];
        if oom["owner"]["id"] == cgroup {
            victims += oom["victims"].as_array().context("no victims")?.len();
        }
        lost += line["lost"]["dropped"]["oom_kill"].as_u64().unwrap_or(0);
    }
    Ok((victims.try_into()?, lost))
}
