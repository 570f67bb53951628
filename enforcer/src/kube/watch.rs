//! Follows the pods of one node, and that node.
//!
//! A task that lists and watches each of the two and tells [`News`] over a bounded channel. Where that is full the task
//! waits, and nobody else; what it misses meanwhile it lists anew. What was known stays known while the API server is away:
//! that is told once, and once that it is back.

use super::{
    call::{CallError, Request, path},
    connect::Server,
    node::NodeState,
    read::{self, Listed},
    resources,
    state::{PodName, PodState},
    stream::{End, Event, Watching},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep},
};

/// News that wait to be taken.
pub const NEWS_MAX: usize = 256;
/// A watch that ended sooner than this is not opened again at once.
const SHORT: Duration = Duration::from_secs(1);

/// What is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// These are all the pods of the node: what is not among them is gone.
    Pods(Vec<PodState>),
    /// A pod is new or has changed.
    Pod(Box<PodState>),
    /// A pod is gone, or has left the node.
    PodGone {
        /// Its uid.
        uid: String,
        /// Its name.
        name: PodName,
    },
    /// The node is new or has changed.
    Node(Box<NodeState>),
    /// There is no such node.
    NodeGone,
    /// The API server can't be followed; told once until [`News::Back`].
    CutOff(CallError),
    /// It is followed again, and what was missed has been told.
    Back,
}

/// What was lost, for metrics.
#[derive(Debug, Default)]
pub struct Counters {
    /// Objects that made no sense, or for which there was no room.
    pub left_out: AtomicU64,
    /// Requests and watches that failed.
    pub failures: AtomicU64,
    /// Lists that were read anew.
    pub lists: AtomicU64,
}

/// A watch that runs until it is dropped, or until nobody takes its news.
#[derive(Debug)]
pub struct Watch {
    task: JoinHandle<()>,
    counters: Arc<Counters>,
}

impl Watch {
    /// Begins. Must be called in a tokio runtime.
    pub fn start(server: Server, node: String) -> (Self, mpsc::Receiver<News>) {
        let (news, taken) = mpsc::channel(NEWS_MAX);
        let counters = Arc::<Counters>::default();
        let link = Link { news, counters: Arc::clone(&counters), down: Arc::default() };
        let task = tokio::spawn(async move {
            let pods = Followed {
                server: server.clone(),
                link: link.clone(),
                of: Of::Pods,
                selector: read::pods_selector(&node),
            };
            let own = Followed { server, link, of: Of::Node, selector: format!("metadata.name={node}") };
            // Either ends only where nobody takes its news.
            tokio::select! {
                () = pods.follow() => {}
                () = own.follow() => {}
            }
        });
        (Self { task, counters }, taken)
    }

    /// What was lost.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What one of the two follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Pods,
    Node,
}

impl Of {
    const fn resource(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Node => "nodes",
        }
    }

    const fn list(self) -> &'static str {
        match self {
            Self::Pods => "list pods",
            Self::Node => "list nodes",
        }
    }

    const fn watch(self) -> &'static str {
        match self {
            Self::Pods => "watch pods",
            Self::Node => "watch nodes",
        }
    }
}

/// Nobody takes the news any more.
struct Unheard;

/// The way to whoever takes the news, and whether the API server is followed.
#[derive(Clone)]
struct Link {
    news: mpsc::Sender<News>,
    counters: Arc<Counters>,
    /// Which of the two is cut off.
    down: Arc<Mutex<BTreeSet<Of>>>,
}

impl Link {
    async fn tell(&self, news: News) -> Result<(), Unheard> {
        self.news.send(news).await.map_err(|_| Unheard)
    }

    async fn is_down(&self, of: Of, why: CallError) -> Result<(), Unheard> {
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        let first = {
            let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
            let first = down.is_empty();
            down.insert(of);
            first
        };
        if first { self.tell(News::CutOff(why)).await } else { Ok(()) }
    }

    async fn is_up(&self, of: Of) -> Result<(), Unheard> {
        let last = {
            let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
            down.remove(&of) && down.is_empty()
        };
        if last { self.tell(News::Back).await } else { Ok(()) }
    }
}

struct Followed {
    server: Server,
    link: Link,
    of: Of,
    selector: String,
}

impl Followed {
    async fn follow(&self) {
        // Ends where nobody hears.
        let _ = self.for_ever().await;
    }

    async fn for_ever(&self) -> Result<(), Unheard> {
        let mut wait = Wait::new(&self.server);
        loop {
            let mut version = match self.list().await {
                Ok((news, version)) => {
                    self.link.counters.lists.fetch_add(1, Ordering::Relaxed);
                    self.link.tell(news).await?;
                    version
                }
                Err(error) => {
                    self.failed(error, &mut wait).await?;
                    continue;
                }
            };
            loop {
                let began = Instant::now();
                match self.watch(&mut version, &mut wait).await? {
                    End::Over if began.elapsed() < SHORT => sleep(wait.next(None)).await,
                    End::Over => {}
                    End::Forgotten => {
                        sleep(wait.next(None)).await;
                        break;
                    }
                    End::Failed(error) => {
                        // What makes no sense once may do so for ever from this version on.
                        let anew = !error.is_passing() || error.status().is_none() && !is_away(&error);
                        self.failed(error, &mut wait).await?;
                        if anew {
                            break;
                        }
                    }
                }
            }
        }
    }

    async fn failed(&self, error: CallError, wait: &mut Wait) -> Result<(), Unheard> {
        let span = wait.next(error.retry_after());
        self.link.is_down(self.of, error).await?;
        sleep(span).await;
        Ok(())
    }

    /// All there is, and from where a watch goes on.
    async fn list(&self) -> Result<(News, String), CallError> {
        let parts = ["api", "v1", self.of.resource()];
        match self.of {
            Of::Pods => {
                let Listed { items, resource_version, left_out } =
                    read::list(&self.server, self.of.list(), &parts, &self.selector, pod).await?;
                self.link.counters.left_out.fetch_add(left_out, Ordering::Relaxed);
                Ok((News::Pods(items), resource_version))
            }
            Of::Node => {
                let Listed { items, resource_version, left_out } =
                    read::list(&self.server, self.of.list(), &parts, &self.selector, node).await?;
                self.link.counters.left_out.fetch_add(left_out, Ordering::Relaxed);
                let found = items.into_iter().next();
                Ok((found.map_or(News::NodeGone, |node| News::Node(Box::new(node))), resource_version))
            }
        }
    }

    /// Until it ends; `version` is kept up with.
    async fn watch(&self, version: &mut String, wait: &mut Wait) -> Result<End, Unheard> {
        let seconds = self.server.deadlines().watch.as_secs().max(1).to_string();
        let query = [
            ("watch", "true"),
            ("fieldSelector", self.selector.as_str()),
            ("resourceVersion", version.as_str()),
            ("timeoutSeconds", seconds.as_str()),
            ("allowWatchBookmarks", "true"),
        ];
        let request: Request = read::get(self.of.watch(), path(&["api", "v1", self.of.resource()], &query));
        let mut watching = match Watching::open(&self.server, &request).await {
            Ok(watching) => watching,
            Err(error) if error.status() == Some(410) => return Ok(End::Forgotten),
            Err(error) => return Ok(End::Failed(error)),
        };
        self.link.is_up(self.of).await?;
        loop {
            let event = match watching.next().await {
                Ok(event) => event,
                Err(end) => return Ok(end),
            };
            wait.is_over();
            let (Event::Changed(object) | Event::Deleted(object) | Event::Bookmark(object)) = &event;
            if let Some(found) = object["metadata"]["resourceVersion"].as_str() {
                found.clone_into(version);
            }
            if let Some(news) = self.news(event) {
                self.link.tell(news).await?;
            }
        }
    }

    fn news(&self, event: Event) -> Option<News> {
        let read = match (self.of, event) {
            (_, Event::Bookmark(_)) => return None,
            (Of::Pods, Event::Changed(object)) => pod(object).map(|pod| News::Pod(Box::new(pod))),
            (Of::Pods, Event::Deleted(object)) => {
                pod(object).map(|pod| News::PodGone { uid: pod.uid, name: pod.name })
            }
            (Of::Node, Event::Changed(object)) => node(object).map(|node| News::Node(Box::new(node))),
            (Of::Node, Event::Deleted(_)) => Some(News::NodeGone),
        };
        if read.is_none() {
            self.link.counters.left_out.fetch_add(1, Ordering::Relaxed);
        }
        read
    }
}

/// The server could not be reached, as opposed to what it said.
const fn is_away(error: &CallError) -> bool {
    matches!(error, CallError::Unreachable { .. } | CallError::Deadline { .. } | CallError::Broken { .. })
}

fn pod(object: Value) -> Option<PodState> {
    serde_json::from_value::<Pod>(object)
        .ok()
        .map(|pod| resources::pod(&pod))
        .filter(|pod| !pod.uid.is_empty())
}

fn node(object: Value) -> Option<NodeState> {
    serde_json::from_value::<Node>(object)
        .ok()
        .map(|node| resources::node(&node))
        .filter(|node| !node.name.is_empty())
}

/// Waits that grow, and spread, so that the agents of a cluster do not come all at once.
pub(super) struct Wait {
    min: Duration,
    max: Duration,
    now: Duration,
}

impl Wait {
    pub(super) fn new(server: &Server) -> Self {
        let deadlines = server.deadlines();
        Self { min: deadlines.retry_min, max: deadlines.retry_max, now: deadlines.retry_min }
    }

    /// How long to wait now; never less than the server asks for.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let span = self.now;
        self.now = (self.now * 2).min(self.max);
        // Up to a quarter more, by the clock's last digits.
        let spread = u32::from(u8::try_from(crate::clock::wall_us() % 256).unwrap_or(0));
        (span + span / 1024 * spread).max(asked.unwrap_or_default())
    }

    /// It went well.
    pub(super) fn is_over(&mut self) {
        self.now = self.min;
    }
}
