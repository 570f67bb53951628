//! A running workload in a cgroup of its own, started again when it was killed.

use anyhow::{Context, Result, bail, ensure};
use enforcer_gate::Bytes;
use enforcer_vm_tests::scratch::Scratch;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Starting a workload may take this long under emulation.
const START: Duration = Duration::from_mins(5);

/// One kind of workload at one size.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    /// What the table calls it.
    pub(crate) name: String,
    /// Command lines of the workload program; each runs as a process of the same cgroup.
    pub(crate) commands: Vec<Vec<String>>,
    /// `memory.max` before a shrink.
    pub(crate) limit: Bytes,
    /// The longest time after which it repeats itself.
    pub(crate) period: Duration,
    /// It acts once in its life, so each shrink needs a new one.
    pub(crate) once: bool,
}

/// A cgroup with one class's processes in it.
pub(crate) struct Instance {
    class: Class,
    workload: String,
    name: String,
    pub(crate) cgroup: Scratch,
    children: Vec<(Child, Lines<BufReader<ChildStdout>>)>,
    kills_seen: u64,
}

impl Instance {
    /// Makes the cgroup and waits until every process has reached its first state.
    pub(crate) async fn start(class: &Class, workload: &str, name: &str) -> Result<Self> {
        let cgroup = Scratch::new(name);
        let mut instance = Self {
            class: class.clone(),
            workload: workload.to_owned(),
            name: name.to_owned(),
            cgroup,
            children: Vec::new(),
            kills_seen: 0,
        };
        instance.reset().await?;
        Ok(instance)
    }

    /// Puts the limit back and starts again what has died.
    pub(crate) async fn reset(&mut self) -> Result<()> {
        self.write_max(self.class.limit).await?;
        let mut dead = self.class.once || self.children.len() < self.class.commands.len();
        for (child, _) in &mut self.children {
            dead |= child.try_wait()?.is_some();
        }
        if dead {
            self.stop().await?;
            for command in self.class.commands.clone() {
                self.spawn(&command).await?;
            }
        }
        self.kills_seen = self.kills()?;
        Ok(())
    }

    async fn spawn(&mut self, command: &[String]) -> Result<()> {
        let mut child = Command::new(&self.workload)
            .args(command.iter().map(|word| word.replace("{name}", &self.name)))
            .arg("--cgroup")
            .arg(self.cgroup.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start workload {command:?}"))?;
        let stdout = child.stdout.take().context("workload has no stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(START, lines.next_line()).await.context("workload start")??;
        let Some(line) = first else { bail!("workload {command:?} ended before it was ready") };
        ensure!(line.starts_with("ready"), "workload {command:?} says {line:?}");
        self.children.push((child, lines));
        Ok(())
    }

    /// Ends the processes.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        for (mut child, _) in self.children.drain(..) {
            drop(child.start_kill());
            child.wait().await?;
        }
        Ok(())
    }

    /// Whether a process of this cgroup was OOM-killed since the last [`Instance::reset`].
    pub(crate) fn killed(&self) -> Result<bool> {
        Ok(self.kills()? > self.kills_seen)
    }

    fn kills(&self) -> Result<u64> {
        let events = self.cgroup.read("memory.events.local");
        events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "))
            .context("memory.events.local has no oom_kill")?
            .parse()
            .context("oom_kill is no number")
    }

    /// A bare write, as anybody could do it. The kernel may reclaim and kill before it returns, so it runs
    /// beside the event loop.
    pub(crate) async fn write_max(&self, limit: Bytes) -> Result<()> {
        let file = self.cgroup.path().join("memory.max");
        tokio::task::spawn_blocking(move || std::fs::write(file, limit.get().to_string()))
            .await?
            .context("write memory.max")
    }

    /// `memory.current` in bytes.
    pub(crate) fn usage(&self) -> Result<u64> {
        self.cgroup.read("memory.current").trim().parse().context("memory.current is no number")
    }

    /// A limit file's text, without the line's end.
    pub(crate) fn limit(&self, file: &str) -> String {
        self.cgroup.read(file).trim().to_owned()
    }

    pub(crate) fn class(&self) -> &Class {
        &self.class
    }
}
