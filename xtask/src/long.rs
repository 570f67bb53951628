//! Commands that take minutes: what is done is said when it begins, how far it is while it goes on, and how long
//! it took at the end.

use crate::lines::{Lines, Next};
use crate::run;
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(20);
/// What took less needs no word about its end.
const WORTH_TELLING: Duration = Duration::from_secs(2);
/// Lines of output that are kept for the error.
const KEPT: usize = 200;
/// Characters of the latest line of output in a sign of life.
const LATEST: usize = 60;

/// Runs cargo: on a terminal with its own progress bar, else with signs of life.
pub(crate) fn cargo(what: &str, command: &mut Command) -> Result<()> {
    if std::io::stderr().is_terminal() {
        eprintln!("    {what}");
        let begun = Instant::now();
        run::checked(command)?;
        told_end(what, begun.elapsed());
        return Ok(());
    }
    watched(what, command)
}

/// Runs anything else, with signs of life; its output is shown where it fails.
pub(crate) fn watched(what: &str, command: &mut Command) -> Result<()> {
    eprintln!("    {what}");
    beating(what, command, BEAT, &mut |line| eprintln!("{line}"))
}

fn beating(what: &str, command: &mut Command, beat: Duration, say: &mut dyn FnMut(&str)) -> Result<()> {
    let begun = Instant::now();
    let (reader, writer) = std::io::pipe().context("make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("start {}", run::shown(command)))?;
    // The command keeps both ends of the pipe for another start; without them the pipe ends with the child.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let lines = Lines::of(reader);
    let mut last: VecDeque<String> = VecDeque::new();
    let mut due = begun + beat;
    loop {
        match lines.next(due.saturating_duration_since(Instant::now())) {
            Next::Line(line) => {
                if last.len() == KEPT {
                    last.pop_front();
                }
                last.push_back(line);
            }
            Next::Silence => {}
            Next::End => break,
        }
        if Instant::now() >= due {
            say(&sign(begun.elapsed(), last.back().map_or("", |line| line)));
            due = Instant::now() + beat;
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{} ended with {status}:\n{}", run::shown(command), Vec::from(last).join("\n"));
    }
    told_end(what, begun.elapsed());
    Ok(())
}

/// `    ... 1m15s: Compiling aya v0.14.0`
fn sign(elapsed: Duration, latest: &str) -> String {
    // Where a package lies does not matter.
    let latest = latest.split(" (").next().unwrap_or(latest);
    let latest: String = latest.trim().chars().filter(|c| !c.is_control()).take(LATEST).collect();
    let colon = if latest.is_empty() { "" } else { ": " };
    format!("    ... {}{colon}{latest}", took(elapsed))
}

fn told_end(what: &str, elapsed: Duration) {
    if elapsed >= WORTH_TELLING {
        eprintln!("    done in {}: {what}", took(elapsed));
    }
}

/// `45s`, `2m05s`.
fn took(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds => format!("{}m{:02}s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_sign_of_life_says_how_long_and_the_latest_line() {
        assert_eq!(
            sign(Duration::from_secs(75), "   Compiling aya v0.14.0\u{1b}"),
            "    ... 1m15s: Compiling aya v0.14.0"
        );
        assert_eq!(
            sign(Duration::from_secs(45), "Compiling x v0.1.0 (/a/b)"),
            "    ... 45s: Compiling x v0.1.0"
        );
        assert_eq!(sign(Duration::from_secs(45), ""), "    ... 45s");
        assert!(sign(Duration::ZERO, &"x".repeat(1000)).len() < 80);
    }

    #[test]
    fn a_command_that_goes_on_is_heard_of_until_it_ends() {
        // Silent until it was heard of twice.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("go");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let mut command = shell(&format!("echo early; read go < {}; test $go = on", path.display()));
        let mut heard = Vec::new();
        let mut say = |line: &str| {
            heard.push(line.to_owned());
            if heard.len() == 2 {
                std::fs::write(&path, "on\n").unwrap();
            }
        };
        beating("a test", &mut command, Duration::from_millis(200), &mut say).unwrap();
        assert!(heard.len() >= 2 && heard.iter().all(|line| line.ends_with(": early")), "{heard:?}");
    }

    #[test]
    fn what_a_failed_command_said_is_in_the_error() {
        let mut command = shell("echo out; echo err >&2; exit 3");
        let error = beating("a test", &mut command, BEAT, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.ends_with("out\nerr"), "{error}");
    }
}
