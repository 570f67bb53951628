//! What the agent does before all of it is there.

use super::{block_on, state};
use crate::cri::rig::{Containerd, LONG};
use enforcer::admin::model::PartState;
use enforcer_vm_tests::agent_rig::{Agent, text};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The kernel's types, which every load reads first: whoever opens them waits until somebody writes.
struct Pipe {
    types: Vec<u8>,
    path: PathBuf,
    _folder: TempDir,
}

impl Pipe {
    fn lay() -> Self {
        let types = std::fs::read(TYPES).expect("the kernel's types");
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        let path = folder.path().join("types");
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a pipe");
        mount(Some(&path), TYPES, None::<&str>, MsFlags::MS_BIND, None::<&str>).expect("over the types");
        Self { types, path, _folder: folder }
    }

    /// Who waits gets them, and who comes later reads the kernel's own.
    fn give(&self) {
        let mut end = OpenOptions::new().write(true).open(&self.path).expect("somebody reads");
        umount2(Path::new(TYPES), MntFlags::MNT_DETACH).expect("the kernel's own");
        end.write_all(&self.types).expect("is read");
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // Others need them.
        let _ = umount2(Path::new(TYPES), MntFlags::MNT_DETACH);
    }
}

/// It answers meanwhile and ends when told to; what is loaded late is there from then on.
pub(super) fn hung_load() {
    block_on(async {
        let containerd = Containerd::start().await;
        let pipe = Pipe::lay();
        let agent = Agent::start(&[]);
        let loads = async |agent: &Agent| {
            let status = agent.status().await;
            for part in ["kernel", "recorder", "drift", "guard", "gate"] {
                let found = status.parts.iter().find(|found| found.name == part).expect("the part");
                assert_eq!(found.state, PartState::Starting, "{found:?}");
                assert!(found.why.contains("being loaded"), "{found:?}");
            }
        };
        loads(&agent).await;
        agent.heard("the inventory", |said| text(said).starts_with("the inventory is current"));
        assert_eq!((agent.page("/healthz").0, agent.page("/readyz").0), (200, 503));
        assert_eq!((agent.ask(&["pause"]).0, agent.ask(&["resume"]).0), (Some(0), Some(0)));
        agent.end();
        let agent = Agent::start(&[]);
        loads(&agent).await;
        pipe.give();
        let began = Instant::now();
        let all = ["kernel", "recorder", "drift", "guard", "gate"];
        loop {
            let status = agent.status().await;
            let works = |part: &&str| matches!(state(&status, part), PartState::Ready | PartState::Degraded);
            if all.iter().all(works) {
                break;
            }
            assert!(began.elapsed() < LONG, "{:#?}", status.parts);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        agent.end();
        containerd.end().await;
    });
}
