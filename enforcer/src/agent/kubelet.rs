//! The API's view of this node's pods, and what is said to the API server. The way that is made for the kubelet is in [`ways`].
//!
//! Nothing here waits for the API server: what it says comes over a channel, what is said to it goes into an outbox.

mod ways;

use super::{
    Agent,
    takebacks::{Said, TakeBacks},
    wishes::{Tries, Wish},
};
use crate::{
    admin::model::{HappeningKind, PartState},
    clock::wall_us,
    config::Kubernetes,
    health::PartName,
    kube::{
        connect::{Deadlines, Server, Source},
        flapping::Tracker,
        outbox::{Came, Decision, Outbox},
        state::PodState,
        watch::{News, Watch},
    },
    metrics::ApiLimits,
    resize::Way,
};
use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    future::pending,
    rc::Rc,
};
use tokio::{sync::mpsc, task::JoinSet};

/// Who wants a change that is made for the kubelet, as `status` shows it.
pub(super) const BY: &str = "kubelet";

/// What the API side tells the loop.
#[derive(Debug)]
pub(super) enum Told {
    /// The API server is there, or can't be reached at all: a token or a file is missing.
    Connected(Result<Server, String>),
    /// It has news.
    News(News),
    /// What came of a patch.
    Came(Box<Decision>, Box<Came>),
}

/// The connection, what was heard, and what is being done about it.
#[derive(Debug, Default)]
pub(super) struct Kubelet {
    node: String,
    connecting: JoinSet<Result<Server, String>>,
    link: Option<Link>,
    /// By uid.
    pods: BTreeMap<String, PodState>,
    tries: Tries,
    /// Limits on their way back into the spec.
    backs: TakeBacks,
    /// Who changes limits to and fro.
    flapping: Tracker,
    /// Containers that are kept out of for that, by the pod's uid and their name.
    kept_out: BTreeSet<(String, String)>,
    /// Way that is being made, by the container's id, and what came of it.
    open: BTreeMap<String, (Wish, Rc<OnceCell<Way>>)>,
}

#[derive(Debug)]
struct Link {
    _watch: Watch,
    news: mpsc::Receiver<News>,
    outbox: Outbox,
    came: mpsc::Receiver<(Decision, Came)>,
}

impl Kubelet {
    /// Begins to connect, unless it is connected or at it.
    fn connect(&mut self, config: &Kubernetes) {
        if self.link.is_some() || !self.connecting.is_empty() {
            return;
        }
        self.node = config.node.clone().unwrap_or_else(own_name);
        let named = config.kubeconfig.clone();
        self.connecting.spawn(async move {
            let source = Source::find(named.as_deref(), None).map_err(|error| error.to_string())?;
            Server::connect(source, Deadlines::default()).await.map_err(|error| error.to_string())
        });
    }

    /// What is told next. Cancel safe.
    pub(super) async fn next(&mut self) -> Told {
        let Self { connecting, link, .. } = self;
        let news = async {
            let Some(link) = link else { return pending().await };
            tokio::select! {
                Some(news) = link.news.recv() => Told::News(news),
                Some((decision, came)) = link.came.recv() => Told::Came(Box::new(decision), Box::new(came)),
                else => pending().await,
            }
        };
        tokio::select! {
            Some(server) = connecting.join_next() => {
                Told::Connected(server.unwrap_or_else(|error| Err(error.to_string())))
            }
            told = news => told,
        }
    }

    /// Whether way is being made for this container.
    pub(super) fn has(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// What the API has of each container's memory limit, by the runtime's id of it.
    pub(super) fn limits(&self) -> BTreeMap<&str, ApiLimits> {
        let containers = self.pods.values().flat_map(|pod| {
            let made = pod.containers.iter().filter(|container| !container.id.is_empty());
            made.map(move |container| (container.id.as_str(), ApiLimits::of(pod, &container.level)))
        });
        containers.collect()
    }

    fn connected(&mut self, server: Server) {
        let (outbox, came) = Outbox::start(server.clone());
        let (watch, news) = Watch::start(server, self.node.clone());
        self.link = Some(Link { _watch: watch, news, outbox, came });
    }

    fn hear(&mut self, news: News) -> Option<String> {
        match news {
            News::Pods(pods) => {
                for pod in &pods {
                    self.flapping.note(pod, wall_us());
                }
                self.pods = pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
                None
            }
            News::Pod(pod) => {
                self.flapping.note(&pod, wall_us());
                self.pods.insert(pod.uid.clone(), *pod);
                None
            }
            News::PodGone { uid, .. } => {
                self.pods.remove(&uid);
                self.flapping.forget(&uid);
                None
            }
            News::Node(_) => None,
            News::NodeGone => Some(format!("the API has no node {:?}: set kubernetes.node", self.node)),
            News::CutOff(why) => Some(why.to_string()),
            News::Back => Some(String::new()),
        }
    }
}

/// `NODE_NAME`, which a pod is given by the downward API, or the host's name, which the kubelet takes.
fn own_name() -> String {
    let of_host = || {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        name.trim_end().to_lowercase()
    };
    std::env::var("NODE_NAME").ok().filter(|name| !name.is_empty()).unwrap_or_else(of_host)
}

impl Agent {
    /// Begins to follow the API server, again where that failed.
    pub(super) fn begin_kubernetes(&mut self) {
        if self.config.kubernetes.enabled {
            self.kubelet.connect(&self.config.kubernetes);
        } else {
            self.part(PartName::Kubernetes, PartState::Off, "");
        }
    }

    pub(super) fn kubernetes_told(&mut self, told: Told) {
        match told {
            Told::Connected(Ok(server)) => {
                self.part(PartName::Kubernetes, PartState::Ready, "");
                let text =
                    format!("the pods of node {} are followed at {}", self.kubelet.node, server.address());
                self.happened("", HappeningKind::Agent, &text);
                self.kubelet.connected(server);
            }
            Told::Connected(Err(why)) => self.kubernetes_failed(&why),
            Told::News(news) => match self.kubelet.hear(news).as_deref() {
                None => {}
                Some("") => {
                    self.part(PartName::Kubernetes, PartState::Ready, "");
                    self.happened("", HappeningKind::Agent, "the API server is followed again");
                }
                Some(why) => self.kubernetes_failed(why),
            },
            Told::Came(decision, came) => {
                let said = self.kubelet.backs.came(&decision, &came, wall_us());
                self.taken_back(said);
            }
        }
    }

    fn taken_back(&mut self, said: impl IntoIterator<Item = Said>) {
        for Said { target, text } in said {
            self.happened(&target, HappeningKind::Verdict, &text);
        }
    }

    /// What was known stays, and everything that needs no API goes on.
    fn kubernetes_failed(&mut self, why: &str) {
        if self.part(PartName::Kubernetes, PartState::Failed, why) {
            self.happened("", HappeningKind::Agent, &format!("the API server can't be followed: {why}"));
        }
    }
}
