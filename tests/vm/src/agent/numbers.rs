//! The agent beside many containers, all of them real cgroups and processes, behind a runtime that is a script.

use super::{MIB, block_on, memory};
use enforcer_vm_tests::agent_rig::{Agent, LONG};
use enforcer_vm_tests::dice::Dice;
use enforcer_vm_tests::node::{Node, Program};
use std::fs;
use std::time::{Duration, Instant};

/// Containers of a pod's, as many as there are containers to a pod on a usual node.
const OF_A_POD: usize = 3;
/// Rounds of coming and going after the first, which brings all.
const ROUNDS: usize = 4;
/// Of so many containers one goes and comes in a round, at random.
const OF_WHICH_MOVES: usize = 4;
/// How much more memory the agent may hold after the last round than after the first, for what it keeps of each
/// container for ten minutes. What it would keep of containers that are gone is more.
const GROWTH_KIB: u64 = 1536;

/// What the agent holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    files: usize,
    threads: usize,
    rss_kib: u64,
}

impl Held {
    fn by(agent: &Agent) -> Self {
        let own = |name: &str| format!("/proc/{}/{name}", agent.pid());
        let count = |name| fs::read_dir(own(name)).expect("it runs").count();
        let status = fs::read_to_string(own("status")).expect("it runs");
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        let rss_kib = rss.and_then(|kib| kib.trim().parse().ok()).expect("a number");
        Self { files: count("fd"), threads: count("task"), rss_kib }
    }
}

/// Pods with what runs in each, in no order.
struct Crowd {
    node: Node,
    pods: Vec<(String, Vec<String>)>,
    born: u64,
}

impl Crowd {
    fn count(&self) -> usize {
        self.pods.iter().map(|(_, containers)| containers.len()).sum()
    }

    /// A container more, in a new pod or in one that has room.
    fn birth(&mut self, dice: &mut Dice) {
        let open: Vec<_> = (0..self.pods.len()).filter(|pod| self.pods[*pod].1.len() < OF_A_POD).collect();
        let pod = if open.is_empty() || dice.below(4) == 0 {
            self.pods.push((self.node.run_pod(&format!("pod-{}", self.born), &[]), Vec::new()));
            self.pods.len() - 1
        } else {
            open[dice.below(open.len())]
        };
        let name = format!("c-{}", self.born);
        let limits = memory((16 + self.born % 16) * MIB);
        let id = self.node.run(&self.pods[pod].0, &name, &limits, Program::Sleeps);
        self.pods[pod].1.push(id);
        self.born += 1;
    }

    /// A container less, or a whole pod.
    fn death(&mut self, dice: &mut Dice) {
        let pod = dice.below(self.pods.len());
        let (sandbox, containers) = &mut self.pods[pod];
        if containers.len() < 2 || dice.below(6) == 0 {
            self.node.remove_pod(sandbox);
            self.pods.swap_remove(pod);
            return;
        }
        let id = containers.swap_remove(dice.below(containers.len()));
        self.node.end(&id);
        // Most runtimes keep what has ended for a while.
        if dice.below(2) == 0 {
            self.node.remove(&id);
        }
    }
}

/// Waits until the agent knows as many containers as there are, and has read each.
async fn all_are_read(agent: &Agent, count: usize) {
    let began = Instant::now();
    loop {
        let containers = agent.client().containers().await.expect("it answers");
        let read = containers.iter().filter(|view| view.usage.is_some()).count();
        if containers.len() == count && read == count {
            return;
        }
        assert!(began.elapsed() < LONG, "of {count} {} are known, {read} read", containers.len());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Waits until the agent has no more files and threads than at first: one that is open for a moment is no leak.
async fn no_more(agent: &Agent, first: Held) -> Held {
    let began = Instant::now();
    loop {
        let held = Held::by(agent);
        if held.files <= first.files && held.threads <= first.threads {
            return held;
        }
        assert!(began.elapsed() < LONG, "{first:?}, now {held:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until the agent knows of no pod and holds no more than `at_first`.
async fn nothing_is_left(agent: &Agent, at_first: Held) {
    let began = Instant::now();
    loop {
        let (status, held) = (agent.status().await, Held::by(agent));
        let is_empty = status.pods == 0 && status.containers == 0;
        if is_empty && held.files <= at_first.files && held.threads <= at_first.threads {
            return;
        }
        assert!(began.elapsed() < LONG, "{at_first:?}, now {held:?} with {status:#?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

pub(super) fn few() {
    churn(60);
}

pub(super) fn many() {
    churn(250);
}

fn churn(containers: usize) {
    block_on(async {
        let mut dice = Dice::new(0x00e0_f0ce_0250);
        let mut crowd = Crowd { node: Node::start(), pods: Vec::new(), born: 0 };
        let socket = format!("cri.socket={}", crowd.node.socket().display());
        let agent = Agent::ready(&[&socket]);
        let at_first = Held::by(&agent);
        let mut after_first = None;
        for round in 0..=ROUNDS {
            for _ in 0..if round == 0 { 0 } else { containers / OF_WHICH_MOVES } {
                crowd.death(&mut dice);
                if dice.below(2) == 0 {
                    crowd.birth(&mut dice);
                }
            }
            while crowd.count() < containers {
                crowd.birth(&mut dice);
            }
            assert_eq!(crowd.node.running(), containers);
            all_are_read(&agent, containers).await;
            let first = *after_first.get_or_insert_with(|| Held::by(&agent));
            let held = no_more(&agent, first).await;
            println!("after round {round}: {held:?}, {} born", crowd.born);
            assert!(held.rss_kib <= first.rss_kib + GROWTH_KIB, "{first:?}, now {held:?}");
        }
        let (_, metrics) = agent.page("/metrics");
        assert_eq!(
            gauge(&metrics, "enforcer_containers"),
            Some(containers.to_string().as_str()),
            "{metrics}"
        );
        assert!(metrics.contains("container=\"c-"), "{metrics}");
        for (sandbox, _) in std::mem::take(&mut crowd.pods) {
            crowd.node.remove_pod(&sandbox);
        }
        nothing_is_left(&agent, at_first).await;
        let (_, metrics) = agent.page("/metrics");
        assert_eq!(gauge(&metrics, "enforcer_containers"), Some("0"), "{metrics}");
        assert_eq!(gauge(&metrics, "enforcer_pods"), Some("0"), "{metrics}");
        assert!(!metrics.contains("container=\"c-"), "{metrics}");
        // As few as these all have room.
        assert!(agent.status().await.lost.is_empty(), "{:?}", agent.status().await.lost);
        assert_eq!(crowd.node.events_lost(), 0);
        agent.end();
    });
}

/// What a metric without labels is.
fn gauge<'a>(metrics: &'a str, name: &str) -> Option<&'a str> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}
