//! How the agent starts: what it can't do without is an error, of the rest it says what is missing and tries again.

use super::{
    Agent, BEAT, Signals, Source, Tell,
    book::Book,
    kubelet::Kubelet,
    loading::Loading,
    memory,
    overheads::{self, Overheads},
    pausing::Pausing,
    reader::{Make, Reader},
    reading::Reading,
    recent::Recent,
    runtime::Runtime,
    sentinel::Sentinel,
    servers::{Servers, Stop},
    shrinks::Shrinks,
    single::{Another, Single},
    state::State,
    steward::Steward,
};
use crate::{
    actuate::ActuateError,
    admin::{self, ListenError, Listener},
    cgroup::{CgroupError, Herd, Mount},
    config::Config,
    health::Health,
    http::{Limits, serve_pages},
    inventory::{Home, Locator, Tempo},
    metrics::Metrics,
    node::node_policy,
    overhead::sample::Proc,
    shrink::{Bus, now},
};
use enforcer_gate::Policy;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval, timeout},
};

/// How long the start waits for the disk of the journals. What takes longer is waited for beside all else.
const OPENING: Duration = Duration::from_secs(5);
/// Questions that may wait for the loop.
const QUESTIONS: usize = 32;

/// Why there is no agent.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The admin socket, or another agent.
    #[error(transparent)]
    Admin(#[from] ListenError),
    /// The cgroup mount.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The node has its agent.
    #[error(transparent)]
    Another(#[from] Another),
    /// The folder of the journals.
    #[error(transparent)]
    State(#[from] ActuateError),
    /// The address for Prometheus and for probes.
    #[error("can't listen at {address}")]
    Http {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The system refuses a thread, a timer or a signal.
    #[error("can't {what}")]
    Io {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl StartError {
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

impl Agent {
    /// Takes the admin socket and the node, of which there is one agent, settles what an earlier one left, begins to
    /// load the kernel programs and to listen. Must be called in a tokio runtime.
    pub async fn start(config: Config, source: Source, tell: Tell) -> Result<Self, StartError> {
        memory::keep_small();
        let admin = Listener::bind(&config.agent.admin_socket)?;
        let mount = Arc::new(Mount::discover()?);
        let single = Single::take(&mount)?;
        let mut state = State::open(&config.agent.state_dir);
        let opened = timeout(OPENING, state.next()).await.ok().flatten();
        let opened = match opened {
            Some(Err(error)) if !error.is_full() => return Err(error.into()),
            other => other,
        };
        let signals = Signals::listen()?;
        let http = match config.http.listen {
            Some(address) => {
                let listener = std::net::TcpListener::bind(address);
                let listener =
                    listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
                Some(listener.map_err(|source| StartError::Http { address, source })?)
            }
            None => None,
        };
        let policy = config.gate.policy(&node_policy());
        let interval_of = |micros: enforcer_gate::Micros| Duration::from_micros(micros.get());
        let reading_interval = interval_of(config.agent.reading_interval);
        let reader = Reader::start(taking(Arc::clone(&mount)), policy.clone(), reading_interval)?;
        let overheads = config.overhead.watch.then(|| {
            Overheads::start(Proc::default(), Arc::clone(&mount), overheads::pace(&config.overhead))
        });
        let overheads =
            overheads.transpose().map_err(StartError::io("start the thread that looks at pods' overhead"))?;
        let tempo = Tempo {
            deadline: interval_of(config.cri.deadline),
            events: config.cri.events,
            ..Tempo::default()
        };
        let runtime = Runtime::new(config.cri.socket.clone(), Locator::new(Arc::clone(&mount)), tempo);
        let (bus, feed) = Bus::fed();
        let (ask, questions) = mpsc::channel(QUESTIONS);
        let (scrape, scrapes) = mpsc::channel(1);
        let (health, metrics) = (Health::new(), Metrics::new());
        let asked = Arc::new(admin::Counts::with(metrics.connections()));
        let servers = {
            let (metrics, health, asked) = (metrics.clone(), health.clone(), Arc::clone(&asked));
            Servers::start(move |stop| async move {
                let pages = pages(http, metrics, health.clone(), scrape, stop.clone());
                // It fails only where tokio takes no descriptor, and then nobody can ask.
                let (_, ()) = tokio::join!(admin::serve(admin, ask, health, asked, stop.wait()), pages);
            })
            .map_err(StartError::io("start the servers' thread"))?
        };
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut agent = Self {
            sentinel: Sentinel::new(Arc::clone(&mount), config.drift.mend),
            steward: Steward::new(config.policy.clone()),
            kubelet: Kubelet::default(),
            paused: config.agent.paused,
            pausing: Pausing::default(),
            source,
            started: now(),
            mount,
            _single: single,
            policy,
            probe: None,
            kernel_loading: Loading::new(),
            guard_loading: Loading::new(),
            feed,
            bus,
            runtime,
            book: Book::default(),
            reader,
            overheads,
            recorder: None,
            guards: None,
            shrinks: Shrinks::default(),
            questions,
            scrapes,
            health,
            metrics,
            recent: Recent::default(),
            tell,
            beat,
            beats: 0,
            signals,
            changes: None,
            servers,
            asked,
            state,
            config,
        };
        agent.watch_config();
        agent.protect();
        agent.load();
        if let Some(opened) = opened {
            agent.opened(opened);
        }
        Ok(agent)
    }
}

impl Signals {
    fn listen() -> Result<Self, StartError> {
        let to = |kind| signal(kind).map_err(StartError::io("listen to signals"));
        Ok(Self {
            interrupt: to(SignalKind::interrupt())?,
            terminate: to(SignalKind::terminate())?,
            hangup: to(SignalKind::hangup())?,
        })
    }
}

/// How containers are read. What of it is kept from one reading to the next begins anew with each thread.
fn taking(mount: Arc<Mount>) -> Make {
    Box::new(move || {
        let (mut herd, mount) = (Herd::new()?, Arc::clone(&mount));
        Ok(Box::new(move |home: &Home, policy: &Policy| {
            Reading::take(&mut herd, &mount, home, policy, now())
        }))
    })
}

async fn pages(
    listener: Option<std::net::TcpListener>,
    metrics: Metrics,
    health: Health,
    scrape: mpsc::Sender<oneshot::Sender<()>>,
    stop: Stop,
) {
    // As above.
    if let Some(Ok(listener)) = listener.map(TcpListener::from_std) {
        let refresh = move || refresh(scrape.clone());
        serve_pages(listener, Limits::PAGES, metrics, health, refresh, stop.wait()).await;
    }
}

async fn refresh(scrape: mpsc::Sender<oneshot::Sender<()>>) {
    let (reply, answer) = oneshot::channel();
    // Where the loop has ended the figures are the last ones.
    if scrape.send(reply).await.is_ok() {
        let _ = answer.await;
    }
}
