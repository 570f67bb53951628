//! The node agent: one loop that knows every container, listens to the kernel and changes limits through the gate.
//!
//! [`Agent::start`] makes what it stands on, [`Agent::run`] is the loop over [`event`]. What may wait for a disk or for
//! the kernel has a thread of its own: [`reader`], [`overheads`], [`recorder`], every change of a limit.

mod book;
mod ending;
mod event;
mod guarding;
mod guards;
mod handle;
mod kernel;
mod kubelet;
mod loading;
mod memory;
mod overheads;
mod parts;
mod pausing;
mod peaks;
mod reader;
mod reading;
mod recent;
mod recorder;
mod runtime;
mod schedule;
mod sentinel;
mod servers;
mod shrinks;
mod single;
mod start;
mod state;
mod steward;
mod suspects;
mod takebacks;
mod tell;
mod turns;
mod view;
mod wishes;

pub use single::Another;
pub use start::StartError;

use crate::{
    admin::{Counts, Question, model::Happening},
    cgroup::Mount,
    config::{Changes, Config, Version},
    health::Health,
    metrics::Metrics,
    probe::Probe,
    shrink::{Bus, Feed},
};
use book::Book;
use enforcer_gate::{Instant, Policy};
use guards::Guards;
use kubelet::Kubelet;
use loading::Loading;
use overheads::Overheads;
use pausing::Pausing;
use reader::Reader;
use recent::Recent;
use recorder::Recorder;
use runtime::Runtime;
use sentinel::Sentinel;
use servers::Servers;
use shrinks::Shrinks;
use single::Single;
use state::State;
use std::{path::PathBuf, sync::Arc, time::Duration};
use steward::Steward;
use tokio::{
    signal::unix::Signal,
    sync::{mpsc, oneshot},
    time::Interval,
};

/// Time between two beats: several fit into what makes the guard stale.
const BEAT: Duration = Duration::from_secs(1);
/// Kernel events that are taken at once, before others have a turn.
const BATCH_MAX: usize = 1024;

/// Is told what happens.
pub type Tell = Box<dyn FnMut(&Happening)>;

/// The agent.
pub struct Agent {
    config: Config,
    /// The configuration's file and what was said over it, to read it again.
    source: Source,
    started: Instant,
    mount: Arc<Mount>,
    /// That it is the node's only one.
    _single: Single,
    policy: Policy,
    probe: Option<Probe>,
    /// The kernel programs, on their way.
    kernel_loading: Loading<Probe>,
    /// Those of the guard.
    guard_loading: Loading<Guards>,
    feed: Feed,
    bus: Bus,
    runtime: Runtime,
    book: Book,
    reader: Reader,
    /// What pods cost; nothing where that is not to be told.
    overheads: Option<Overheads>,
    recorder: Option<Recorder>,
    sentinel: Sentinel,
    guards: Option<Guards>,
    shrinks: Shrinks,
    steward: Steward,
    kubelet: Kubelet,
    questions: mpsc::Receiver<Question>,
    /// Who scrapes waits until the figures are those of now.
    scrapes: mpsc::Receiver<oneshot::Sender<()>>,
    health: Health,
    metrics: Metrics,
    recent: Recent,
    paused: bool,
    /// Who asked for a pause and has no answer yet.
    pausing: Pausing,
    tell: Tell,
    beat: Interval,
    /// Beats since the start.
    beats: u64,
    state: State,
    signals: Signals,
    /// Tells when the configuration's file is another one; nothing where that is not to be told, or can't be.
    changes: Option<Changes>,
    servers: Servers,
    /// What the admin socket's side counts.
    asked: Arc<Counts>,
}

/// Where the configuration is from.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The file, where one is named.
    pub file: Option<PathBuf>,
    /// Which one was read; nothing where none was.
    pub version: Option<Version>,
    /// `KEY=VALUE` of the command line, which are over it.
    pub overrides: Vec<String>,
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// How the agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It was told to; every change was settled.
    Stopped,
    /// It was told to, and some things did not end in time.
    Late(String),
    /// The kernel programs stopped delivering.
    Kernel(String),
}
