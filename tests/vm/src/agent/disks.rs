//! Disks that are full, that hang, or that hold what another version wrote.

use super::acts::{HELD, LABEL, braked, limit, wasteful};
use super::{MIB, block_on, cgroup_of, memory, state};
use crate::cri::rig::{Containerd, LONG};
use crate::debian::{kills, output, read};
use crate::disk::{DATA, Full, Hung};
use enforcer::admin::model::PartState;
use enforcer_vm_tests::agent_rig::{AT_ONCE, Agent, says, text};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Every folder of the agent's on the scratch disk.
struct Stores {
    folder: TempDir,
    sets: Vec<String>,
}

impl Stores {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(DATA).expect("a folder");
        let at = |key: &str, name: &str| format!("{key}={}", folder.path().join(name).display());
        let sets = [("agent.state_dir", "state"), ("oom.store", "oom"), ("guard.store", "guard")];
        Self { sets: sets.iter().map(|(key, name)| at(key, name)).collect(), folder }
    }

    fn sets<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let own = self.sets.iter().map(String::as_str);
        AT_ONCE.iter().copied().chain(own).chain(["guard.mode=enforce"]).chain(more.iter().copied()).collect()
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

/// Waits until a part is so.
async fn becomes(agent: &Agent, part: &str, wanted: PartState) {
    let began = Instant::now();
    loop {
        let status = agent.status().await;
        if state(&status, part) == wanted {
            return;
        }
        assert!(began.elapsed() < LONG, "{part} does not become {wanted:?}: {:#?}", status.parts);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The guard refuses what would kill, and tells.
fn refuses(agent: &Agent, cgroup: &Path) {
    let refused = std::fs::write(cgroup.join("memory.max"), "4M").expect_err("it would kill");
    assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
    agent.heard("the verdict", |said| says(said, "guard", "denied"));
}

/// An OOM in a container of its own.
async fn oom(containerd: &mut Containerd, name: &str) {
    containerd.run_pod(name, "").await;
    let script = "/bin/busybox tail -f /dev/null | /bin/enforcer-workload anon --size 80Mi; exec /bin/busybox sleep 100000";
    containerd.run_job(name, &["/bin/busybox", "sh", "-c", script], memory(40 * MIB)).await;
}

/// Words of the guard's log, or of the OOM store.
fn stored(words: &[&str], folder: &str) -> String {
    let answer = output("/bin/enforcer", words.iter().copied().chain(["--json", "--store", folder]));
    String::from_utf8(answer.stdout).expect("text")
}

/// At the start: nothing can be kept, everything else is done, and what was missing comes when there is room. In the middle: a
/// shrink on its way has its journal, and goes on.
pub(super) fn full() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let stores = Stores::new();
        let full = Full::fill();
        let agent = Agent::ready(&stores.sets(&["gate.window=10s"]));
        agent.heard("that nothing is lowered", |said| {
            text(said).contains("nothing is lowered") && text(said).contains("No space left")
        });
        becomes(&agent, "gate", PartState::Failed).await;
        becomes(&agent, "recorder", PartState::Failed).await;
        becomes(&agent, "guard", PartState::Degraded).await;
        assert_eq!((agent.page("/healthz").0, agent.page("/readyz").0), (200, 503));
        wasteful(&mut containerd, &[LABEL]).await;
        let app = agent.seen("app", "with its memory", |view| view.usage > HELD).await;
        let cgroup = cgroup_of(&app);
        agent.seen("app", "guarded", |view| view.policy == "auto-shrink").await;
        refuses(&agent, &cgroup);
        oom(&mut containerd, "first").await;
        agent.seen("first", "with a kill", |view| view.oom_kills > 0).await;
        assert_eq!((limit(&cgroup), read(&cgroup, "memory.high").as_str()), (128 * MIB, "max"));
        drop(full);
        for part in ["gate", "recorder", "guard"] {
            becomes(&agent, part, PartState::Ready).await;
        }
        // In the middle.
        braked(&agent).await;
        let full = Full::fill();
        agent.heard("the verdict", |said| says(said, "verdict", "committed"));
        assert!(limit(&cgroup) < 128 * MIB && read(&cgroup, "memory.high") == "max");
        let lower = limit(&cgroup);
        refuses(&agent, &cgroup);
        oom(&mut containerd, "second").await;
        agent.heard("the OOM", |said| says(said, "oom", "") && said["target"] == "pod/testing/second:second");
        assert_eq!((limit(&cgroup), kills(&cgroup).as_str()), (lower, "0"));
        assert_eq!(agent.page("/healthz").0, 200);
        drop(full);
        refuses(&agent, &cgroup);
        for part in ["gate", "recorder", "guard"] {
            becomes(&agent, part, PartState::Ready).await;
        }
        agent.end();
        assert!(stored(&["guard", "log"], &stores.path("guard")).contains("denied"));
        containerd.end().await;
    });
}

/// While a disk hangs the loop, the guard and a pause do what they do; what waits for the disk comes after.
pub(super) fn hung() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let stores = Stores::new();
        let agent = Agent::ready(&stores.sets(&["gate.window=600s"]));
        wasteful(&mut containerd, &[LABEL]).await;
        let cgroup = cgroup_of(&braked(&agent).await);
        let hung = Hung::hang();
        let began = Instant::now();
        let (code, out, err) = agent.ask(&["pause"]);
        println!("paused beside a disk that hangs in {:?}", began.elapsed());
        assert_eq!(code, Some(0), "{out}{err}");
        assert_eq!((read(&cgroup, "memory.high").as_str(), limit(&cgroup)), ("max", 128 * MIB));
        let status = agent.status().await;
        let doing: Vec<_> = status.in_flight.iter().map(|flight| flight.state.as_str()).collect();
        assert_eq!((status.paused, doing), (true, vec!["ending"]), "its journal can't be removed");
        assert_eq!(agent.ask(&["resume"]).0, Some(0));
        refuses(&agent, &cgroup);
        oom(&mut containerd, "first").await;
        agent.seen("first", "with a kill", |view| view.oom_kills > 0).await;
        // Longer than a loop may stand still.
        let (from, beyond) = (agent.status().await.uptime, enforcer::health::BEAT_MAX);
        while agent.status().await.uptime.saturating_sub(from) <= beyond {
            assert_eq!(agent.page("/healthz").0, 200);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert_eq!((limit(&cgroup), kills(&cgroup).as_str()), (128 * MIB, "0"));
        drop(hung);
        agent.heard("that it was taken back", |said| says(said, "verdict", "taken back"));
        agent.heard("the OOM", |said| says(said, "oom", "") && said["target"] == "pod/testing/first:first");
        braked(&agent).await;
        agent.end();
        assert!(stored(&["guard", "log"], &stores.path("guard")).contains("denied"));
        assert!(stored(&["oom"], &stores.path("oom")).contains("testing/first"));
        containerd.end().await;
    });
}

/// The same from the start on: nothing is lowered before the disk answers.
pub(super) fn hung_at_start() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let stores = Stores::new();
        // There before, as after an earlier agent.
        Agent::ready(&stores.sets(&[])).end();
        let hung = Hung::hang();
        let agent = Agent::ready(&stores.sets(&["gate.window=600s"]));
        let status = agent.status().await;
        assert_eq!(state(&status, "gate"), PartState::Starting, "{:#?}", status.parts);
        assert_eq!(state(&status, "recorder"), PartState::Starting, "{:#?}", status.parts);
        assert_eq!((agent.page("/healthz").0, agent.page("/readyz").0), (200, 503));
        wasteful(&mut containerd, &[LABEL]).await;
        let app = agent.seen("app", "to be shrunk", |view| view.policy == "auto-shrink").await;
        let app = agent.seen("app", "with its memory", |view| view.usage > HELD && view.id == app.id).await;
        let cgroup = cgroup_of(&app);
        refuses(&agent, &cgroup);
        assert_eq!((agent.ask(&["pause"]).0, agent.ask(&["resume"]).0), (Some(0), Some(0)));
        assert_eq!(agent.status().await.in_flight.len(), 0);
        assert_eq!((limit(&cgroup), read(&cgroup, "memory.high").as_str()), (128 * MIB, "max"));
        drop(hung);
        for part in ["gate", "recorder", "guard"] {
            becomes(&agent, part, PartState::Ready).await;
        }
        braked(&agent).await;
        agent.end();
        containerd.end().await;
    });
}

/// What a newer version left is not touched, and nothing is lowered beside it: this one can't know what it lowered.
pub(super) fn newer() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        let stores = Stores::new();
        Agent::ready(&stores.sets(&[])).end();
        let journal = Path::new(&stores.path("state")).join("00000000000000ff.journal");
        let bytes = [&b"enfjrnl\0"[..], &2_u32.to_le_bytes(), &[7; 500]].concat();
        std::fs::write(&journal, &bytes).expect("write it");
        let agent = Agent::ready(&stores.sets(&[]));
        let status = agent.status().await;
        let gate = status.parts.iter().find(|part| part.name == "gate").expect("the part");
        assert_eq!(gate.state, PartState::Degraded, "{gate:?}");
        assert!(gate.why.contains("enforcer recover of that version"), "{gate:?}");
        wasteful(&mut containerd, &[LABEL]).await;
        let said = agent.heard("why not", |said| says(said, "verdict", "could not be settled"));
        assert!(text(&said).contains("format 2"), "{said}");
        let app = agent.seen("app", "read", |view| view.usage.is_some()).await;
        let cgroup = cgroup_of(&app);
        assert_eq!((limit(&cgroup), read(&cgroup, "memory.high").as_str()), (128 * MIB, "max"));
        let recover = output("/bin/enforcer", ["recover", "--state-dir", &stores.path("state")]);
        assert_eq!(recover.status.code(), Some(1));
        assert_eq!(std::fs::read(&journal).expect("it is there"), bytes);
        // What its message says.
        std::fs::remove_file(&journal).expect("remove it");
        agent.heard("the verdict", |said| says(said, "verdict", "committed"));
        agent.end();
        containerd.end().await;
    });
}
