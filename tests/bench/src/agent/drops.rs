//! How many events a second the agent takes before the first is dropped.

use super::writer::Writer;
use super::{Crowd, Options, all_are_read};
use anyhow::Result;
use enforcer_vm_tests::agent_rig::Agent;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Processes that write.
const WRITERS: u32 = 4;
/// How long they do.
const SECONDS: u64 = 10;

/// What came of one rate.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// Writes a second that were asked for; 0 for as many as the writers can.
    asked_per_second: u32,
    /// And that there were.
    written_per_second: f64,
    written: u64,
    /// Records that had no room.
    dropped: u64,
}

pub(super) async fn run(crowd: &Crowd, options: &Options) -> Result<Vec<Outcome>> {
    let agent = Agent::ready(&[&crowd.socket(), "http.listen="]);
    all_are_read(&agent, crowd.containers.len()).await?;
    println!("{:<26} {:>12} {:>12} {:>12}", "limit writes a second", "had", "written", "dropped");
    let mut outcomes = Vec::new();
    for rate in options.rates.iter().copied().chain([0]) {
        let outcome = at(crowd, &agent, rate).await?;
        let asked = if rate == 0 { "as many as can be".into() } else { rate.to_string() };
        println!(
            "{asked:<26} {:>12.0} {:>12} {:>12}",
            outcome.written_per_second, outcome.written, outcome.dropped
        );
        // More than they can would be the same again.
        let is_most = rate > 0 && outcome.written_per_second < f64::from(rate) * 0.9;
        outcomes.push(outcome);
        if is_most {
            break;
        }
    }
    agent.end();
    Ok(outcomes)
}

async fn at(crowd: &Crowd, agent: &Agent, rate: u32) -> Result<Outcome> {
    let before = lost(agent).await?;
    let cgroups: Vec<_> = crowd.containers.iter().map(|id| crowd.node.cgroup(id)).collect();
    let part = cgroups.len().div_ceil(WRITERS as usize);
    let began = Instant::now();
    let writers: Vec<_> = cgroups
        .chunks(part)
        .map(|part| Writer::start(part, 64 << 20, rate / WRITERS, SECONDS))
        .collect::<Result<_>>()?;
    let ended =
        tokio::task::spawn_blocking(move || writers.into_iter().map(Writer::end).sum::<Result<u64>>());
    let written = ended.await??;
    let took = began.elapsed();
    let dropped = settled(agent).await? - before;
    #[expect(clippy::cast_precision_loss, reason = "writes of one run are far below 2^52")]
    let written_per_second = written as f64 / took.as_secs_f64();
    Ok(Outcome { asked_per_second: rate, written_per_second, written, dropped })
}

async fn lost(agent: &Agent) -> Result<u64> {
    Ok(agent.status().await.lost.values().sum())
}

/// Once the count of what was dropped has stopped rising: the agent has emptied the buffer by then.
async fn settled(agent: &Agent) -> Result<u64> {
    let mut last = lost(agent).await?;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = lost(agent).await?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
}
