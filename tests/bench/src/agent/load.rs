//! Memory and CPU while limits are written and containers come and go.

use super::process::{Memory, cpu};
use super::writer::Writer;
use super::{Crowd, Options, all_are_read, limits};
use crate::stats::Spread;
use anyhow::{Context, Result};
use enforcer_vm_tests::agent_rig::Agent;
use enforcer_vm_tests::node::Program;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Time from one container that comes, and goes, to the next.
const BIRTHS: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    what: String,
    containers: usize,
    cpu_percent: Spread,
    rss_mib: f64,
    lost: u64,
}

pub(super) async fn run(crowd: &mut Crowd, options: &Options) -> Result<Vec<Outcome>> {
    let agent = Agent::ready(&[&crowd.socket(), "http.listen="]);
    let count = crowd.containers.len();
    all_are_read(&agent, count).await?;
    let mut outcomes = Vec::new();
    println!(
        "{:<56} {:>10} {:>9} {:>17} {:>9} {:>6}",
        "load", "containers", "CPU %", "least..most", "RSS MiB", "lost"
    );
    let writes = format!("{} limit writes a second", options.load);
    let births = format!("a container comes and one goes every {} s", BIRTHS.as_secs());
    for (what, rate, comes) in [(writes.as_str(), options.load, false), (&births, 0, true)] {
        let mut parts = Vec::new();
        for _ in 0..options.windows {
            parts.push(window(crowd, &agent, options, rate, comes).await?);
        }
        let status = agent.status().await;
        #[expect(clippy::cast_precision_loss, reason = "KiB of one run are far below 2^52")]
        let rss_mib = Memory::of(agent.pid())?.rss_kib as f64 / 1024.0;
        let outcome = Outcome {
            what: what.to_owned(),
            containers: count,
            cpu_percent: Spread::of(&parts).context("nothing was measured")?,
            rss_mib,
            lost: status.lost.values().sum(),
        };
        let part = outcome.cpu_percent;
        println!(
            "{:<56} {:>10} {:>9.3} {:>8.3}..{:<7.3} {:>9.1} {:>6}",
            outcome.what, count, part.median, part.min, part.max, rss_mib, outcome.lost
        );
        outcomes.push(outcome);
    }
    agent.end();
    Ok(outcomes)
}

async fn window(crowd: &mut Crowd, agent: &Agent, options: &Options, rate: u32, comes: bool) -> Result<f64> {
    let cgroups: Vec<_> = crowd.containers.iter().take(20).map(|id| crowd.node.cgroup(id)).collect();
    let writer = (rate > 0).then(|| Writer::start(&cgroups, 64 << 20, rate, options.seconds)).transpose()?;
    let (began, before) = (Instant::now(), cpu(agent.pid())?);
    let span = Duration::from_secs(options.seconds);
    let mut turn = 0;
    while began.elapsed() < span {
        turn += 1;
        if comes {
            let pod = crowd.node.run_pod(&format!("passing-{turn}"), &[]);
            crowd.node.run(&pod, "passing", &limits(64), Program::Sleeps);
            tokio::time::sleep((BIRTHS * turn).saturating_sub(began.elapsed())).await;
            crowd.node.remove_pod(&pod);
        } else {
            tokio::time::sleep(span.saturating_sub(began.elapsed())).await;
        }
    }
    let (took, after) = (began.elapsed(), cpu(agent.pid())?);
    if let Some(writer) = writer {
        writer.end()?;
    }
    Ok(after.saturating_sub(before).as_secs_f64() / took.as_secs_f64() * 100.0)
}
