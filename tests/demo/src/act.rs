//! One act: workload, request, answer, and the kernel's own word on it.

use anyhow::{Context, Result, bail};
use enforcer::quantity::parse_bytes;
use enforcer_vm_tests::scratch::Scratch;
use enforcer_vm_tests::workload::Workload;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// What runs, what is asked, what is promised.
pub(crate) struct Act {
    pub(crate) title: &'static str,
    pub(crate) name: &'static str,
    pub(crate) workloads: Vec<String>,
    /// What the first workload is told before anything is asked.
    pub(crate) first: &'static [&'static str],
    pub(crate) limit: &'static str,
    pub(crate) way: Way,
    pub(crate) ending: Ending,
}

/// How the limit is lowered.
pub(crate) enum Way {
    /// By `enforcer shrink`.
    Enforcer {
        to: &'static str,
        window: &'static str,
        /// What the first workload is told once the trial has begun.
        in_trial: Option<&'static str>,
    },
    /// By a write to the file.
    BareWrite { to: &'static str },
}

/// How an act ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Committed,
    Refused,
    RolledBack,
    Killed,
}

/// The line that is left of an act.
pub(crate) struct Told {
    name: &'static str,
    ending: Ending,
    kills: u64,
    limits: String,
    pub(crate) as_promised: bool,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.as_promised { "as promised" } else { "NOT AS PROMISED" };
        let ending = format!("{:?}", self.ending);
        write!(f, "{:<12} {ending:<11} kills {}  {}  {mark}", self.name, self.kills, self.limits)
    }
}

impl Act {
    /// Plays it, printing as it goes.
    pub(crate) fn play(&self, enforcer: &Path, workload: &Path) -> Result<Told> {
        println!("\n=== {}", self.title);
        let cgroup = Scratch::new(self.name);
        cgroup.write("memory.max", self.limit);
        cgroup.write_if_there("memory.swap.max", "0");
        let mut running: Vec<Workload> = self
            .workloads
            .iter()
            .map(|line| {
                println!("    workload: {line}");
                Workload::start(workload, &cgroup, line)
            })
            .collect();
        for step in self.first {
            println!("    workload is told: {step}");
            told(&mut running, step)?;
        }
        let before = cgroup.read("memory.max");
        let answer = match self.way {
            Way::BareWrite { to } => {
                println!("$ echo {to} > {}/memory.max", cgroup.path().display());
                // The kernel may kill before the write returns; what it returns is not the point.
                drop(std::fs::write(cgroup.path().join("memory.max"), to));
                None
            }
            Way::Enforcer { to, window, in_trial } => {
                Some(shrink(enforcer, &cgroup, to, window, in_trial, &mut running)?)
            }
        };
        let kills = cgroup.kills();
        let limits = format!(
            "memory.max {} -> {}, memory.high {}",
            for_people(&before),
            for_people(&cgroup.read("memory.max")),
            for_people(&cgroup.read("memory.high"))
        );
        println!("    kernel: {limits}, oom_kill {kills}");
        let ending = if kills > 0 { Ending::Killed } else { answer.unwrap_or(Ending::Committed) };
        let untouched = matches!(ending, Ending::Refused | Ending::RolledBack);
        let limit_right = (cgroup.read("memory.max") == before) == untouched;
        let brake_off = cgroup.read("memory.high").trim() == "max";
        drop(running);
        Ok(Told {
            name: self.name,
            ending,
            kills,
            limits,
            as_promised: ending == self.ending && limit_right && brake_off,
        })
    }
}

/// What a limit file holds: bytes, or `max`.
fn for_people(content: &str) -> String {
    let text = content.trim();
    parse_bytes(text).map_or_else(|_| text.to_owned(), |bytes| bytes.to_string())
}

/// Has the first workload take a step, and waits until it is done.
fn told(running: &mut [Workload], step: &str) -> Result<()> {
    let workload = running.first_mut().context("there is a workload")?;
    workload.tell(step);
    let answer = workload.line();
    if answer.starts_with("ok") { Ok(()) } else { bail!("the workload answers {answer:?} to {step:?}") }
}

/// Runs the command, its progress and its certificate in full view.
fn shrink(
    enforcer: &Path,
    cgroup: &Scratch,
    to: &str,
    window: &str,
    mut in_trial: Option<&str>,
    running: &mut [Workload],
) -> Result<Ending> {
    println!("$ enforcer shrink {} --to {to} --window {window}", cgroup.path().display());
    let mut child = Command::new(enforcer)
        .arg("shrink")
        .arg(cgroup.path())
        .args(["--to", to, "--window", window])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("run enforcer")?;
    // A line for each state, as they come; the certificate is printed when all is over, and fits in the pipe.
    let progress = child.stderr.take().context("stderr is a pipe")?;
    for line in BufReader::new(progress).lines() {
        let line = line?;
        println!("{line}");
        if line.contains(" trial ")
            && let Some(step) = in_trial.take()
        {
            println!("    workload is told: {step}");
            // Not awaited: the brake may hold it up.
            running.first_mut().context("there is a workload")?.tell(step);
        }
    }
    let output = child.wait_with_output()?;
    let certificate = String::from_utf8_lossy(&output.stdout);
    print!("{certificate}");
    let code = output.status.code();
    println!("    exit status {}", code.map_or("none".to_owned(), |code| code.to_string()));
    let verdict =
        certificate.lines().find_map(|line| line.trim().strip_prefix("verdict")).unwrap_or_default();
    Ok(match code {
        Some(0) => Ending::Committed,
        Some(2) if verdict.trim().starts_with("rolled back") => Ending::RolledBack,
        Some(2) => Ending::Refused,
        code => bail!("enforcer ended with {code:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shown_as_people_say_them() {
        for (content, text) in [("167772160\n", "160Mi"), ("max\n", "max"), ("12896256\n", "12.3Mi")] {
            assert_eq!(for_people(content), text);
        }
    }
}
