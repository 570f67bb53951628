//! What a user would have instead, on the same node with the same containers.

use super::{Crowd, Options, idle};
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where the bench finds a cadvisor, if it was given one.
const CADVISOR: &str = "/bin/cadvisor";
const CADVISOR_PORT: u16 = 8080;
/// Starting a program may take so long under emulation.
const START: Duration = Duration::from_mins(3);

/// All of them that there are, one after another.
pub(super) async fn idle(crowd: &Crowd, options: &Options) -> Result<Vec<idle::Outcome>> {
    let count = crowd.containers.len();
    let mut outcomes = Vec::new();
    if let Some(oomd) = Oomd::start()? {
        outcomes.push(idle::of("systemd-oomd", oomd.pid, count, options).await?);
    } else {
        println!("SKIP systemd-oomd: this guest has no systemd");
    }
    if Path::new(CADVISOR).exists() {
        let cadvisor = Cadvisor::start().await?;
        outcomes.push(idle::of("cadvisor", cadvisor.0.id(), count, options).await?);
    } else {
        println!("SKIP cadvisor: none was given (--cadvisor)");
    }
    Ok(outcomes)
}

/// systemd's, watching all pods for memory pressure and the node for swap. Stopped when dropped.
struct Oomd {
    pid: u32,
}

const DROP_IN: &str = "/run/systemd/system/kubepods.slice.d/oomd.conf";

impl Oomd {
    fn start() -> Result<Option<Self>> {
        if !Path::new("/run/systemd/system").exists() {
            return Ok(None);
        }
        let folder = Path::new(DROP_IN).parent().context("a folder")?;
        std::fs::create_dir_all(folder)?;
        std::fs::write(
            DROP_IN,
            "[Slice]\nManagedOOMMemoryPressure=kill\nManagedOOMMemoryPressureLimit=90%\nManagedOOMSwap=kill\n",
        )?;
        systemctl(&["unmask", "systemd-oomd.service", "systemd-oomd.socket"])?;
        systemctl(&["daemon-reload"])?;
        systemctl(&["start", "kubepods.slice", "systemd-oomd.service"])?;
        let said = systemctl(&["show", "--property=MainPID", "--value", "systemd-oomd.service"])?;
        let pid = said.trim().parse().context("systemd-oomd's process")?;
        ensure!(pid > 0, "systemd-oomd does not run");
        let watched = output("oomctl", &[])?;
        ensure!(watched.contains("/kubepods.slice"), "systemd-oomd does not watch the pods: {watched}");
        Ok(Some(Self { pid }))
    }
}

impl Drop for Oomd {
    fn drop(&mut self) {
        // The guest ends soon anyhow.
        drop(systemctl(&["stop", "systemd-oomd.service", "systemd-oomd.socket"]));
    }
}

fn systemctl(words: &[&str]) -> Result<String> {
    output("systemctl", words)
}

fn output(program: &str, words: &[&str]) -> Result<String> {
    let done = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .with_context(|| program.to_owned())?;
    if !done.status.success() {
        bail!("{program} {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// As the kubelet has it inside: every 10 s a container. Killed when dropped.
struct Cadvisor(Child);

impl Cadvisor {
    async fn start() -> Result<Self> {
        let child = Command::new(CADVISOR)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start cadvisor")?;
        let mut cadvisor = Self(child);
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", CADVISOR_PORT)).is_err() {
            if let Some(status) = cadvisor.0.try_wait()? {
                bail!("cadvisor ended: {status}");
            }
            ensure!(began.elapsed() < START, "cadvisor does not listen");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(cadvisor)
    }
}

impl Drop for Cadvisor {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
