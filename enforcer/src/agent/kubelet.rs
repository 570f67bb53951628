//! The API's view of this node's pods, and way that is made for the kubelet where it is to lower a memory limit.
//!
//! Nothing here waits for the API server: what it says comes over a channel, what is said to it goes into an outbox.

use super::{
    Agent,
    shrinks::{Ask, Ended, Failed, Given},
    takebacks::{Said, TakeBacks},
    turns::With,
    wishes::{Tries, Wish, wishes},
};
use crate::{
    admin::model::{HappeningKind, PartState},
    cgroup::printable,
    clock::wall_us,
    config::Kubernetes,
    health::PartName,
    kube::{
        connect::{Deadlines, Server, Source},
        event::{Event, Severity},
        flapping::Tracker,
        outbox::{Came, Decision, Outbox},
        state::PodState,
        watch::{News, Watch},
    },
    metrics::ApiLimits,
    policy::Mode,
    resize::{Gate, Of, Way},
    shrink::now,
};
use enforcer_gate::{Bytes, Limit, State, Verdict};
use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    future::pending,
    rc::Rc,
    time::Duration,
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

    /// Makes way where the kubelet is to lower a limit of a pod that asked to be cared for.
    pub(super) fn kubelet_turn(&mut self) {
        let Self { kubelet, book, .. } = self;
        let kernel = |id: &str| Some(book.get(id)?.fresh()?.limit());
        let said = kubelet.backs.look(&kubelet.pods, kernel, wall_us());
        self.taken_back(said);
        if self.probe.is_none() || self.state.settled().is_none() {
            return;
        }
        let at = now();
        let all: Vec<Wish> = self.kubelet.pods.values().flat_map(wishes).collect();
        for wish in all {
            let is_due = self.kubelet.tries.is_due(&wish, at) && !self.kubelet.open.contains_key(&wish.id);
            if is_due && !self.keeps_out(&wish) {
                self.make_way(wish);
            }
        }
        let Kubelet { tries, pods, kept_out, .. } = &mut self.kubelet;
        tries.retain(|uid| pods.contains_key(uid));
        kept_out.retain(|(uid, _)| pods.contains_key(uid));
    }

    /// Who changes a limit to and fro is not helped: the pod is guarded, and no more. It is said once.
    fn keeps_out(&mut self, wish: &Wish) -> bool {
        let key = (wish.uid.clone(), wish.container.clone());
        let Some(flapping) = self.kubelet.flapping.of(&key.0, &key.1, wall_us()) else {
            self.kubelet.kept_out.remove(&key);
            return false;
        };
        if self.kubelet.kept_out.insert(key) {
            let values: Vec<_> = flapping.values.iter().map(ToString::to_string).collect();
            let text = format!(
                "kept out of: its limit went to and fro {} times within half an hour, between {}, by {}",
                flapping.turns,
                values.join(", "),
                printable(&flapping.managers.join(", "))
            );
            let target = format!("pod/{}/{}:{}", wish.pod.namespace, wish.pod.name, wish.container);
            self.happened(&target, HappeningKind::Verdict, &text);
        }
        true
    }

    fn make_way(&mut self, wish: Wish) {
        let Some(entry) = self.book.get(&wish.id).filter(|_| self.steward.mode(&wish.id) >= Mode::Guard)
        else {
            return;
        };
        let Some(from) = entry.fresh().map(super::reading::Reading::limit) else { return };
        if entry.in_flight || Limit::Bytes(wish.to) >= from {
            return;
        }
        let ask = Ask {
            id: wish.id.clone(),
            target: entry.target(),
            sandbox: entry.pod.sandbox.clone(),
            from,
            to: wish.to,
            by: BY,
        };
        let Some(hands) = self.with(&ask) else { return };
        let (came, within) = (Rc::<OnceCell<Way>>::default(), self.config.kubernetes.within);
        let within = Duration::from_micros(within.get());
        let watch_window = self.config.kubernetes.watch.max(self.policy.watch_window);
        let told = Rc::clone(&came);
        let work = move |given: Given| hands.make_way(given, watch_window, within, told);
        self.kubelet.open.insert(wish.id.clone(), (wish, came));
        if !self.begin(ask, work) {
            // Its pod has another change in flight: it is looked at again with the next beat.
            self.kubelet.open.retain(|id, _| self.shrinks.has(id));
        }
    }

    /// A change that was made for the kubelet has ended.
    pub(super) fn way_ended(&mut self, ended: &Ended) {
        let Some((wish, came)) = self.kubelet.open.remove(&ended.id) else { return };
        let way = came.get();
        let is_done = matches!(ended.result, Ok(Verdict::Committed));
        if !is_done {
            self.kubelet.tries.failed(&wish, now());
        }
        let line = match (way, &ended.result) {
            (Some(way), _) => way.certificate.one_line(),
            (None, Ok(verdict)) => super::steward::said(verdict),
            (None, Err(failed)) => failed.why.clone(),
        };
        let was_in_force =
            way.is_some_and(|way| way.certificate.ended_in == State::Watching || way.certificate.overtaken);
        let (reason, severity) = match &ended.result {
            Ok(Verdict::Committed) => ("ShrinkSafe", Severity::Normal),
            Ok(Verdict::RolledBack(_)) if was_in_force => ("ShrinkTakenBack", Severity::Warning),
            Ok(Verdict::RolledBack(_) | Verdict::Refused(_)) => ("ShrinkRefused", Severity::Warning),
            Ok(Verdict::Feasible | Verdict::Failed(_)) | Err(_) => ("ShrinkFailed", Severity::Warning),
        };
        self.event(&wish, reason, severity, &line);
        let needs_more = way.is_some_and(|way| way.certificate.verdict.held_back());
        if let (true, true, Some(Limit::Bytes(limit))) =
            (was_in_force, needs_more, way.and_then(|way| way.certificate.previous_max))
        {
            self.take_back(&wish, limit, &ended.target);
        }
    }

    /// The kernel has the old limit again; the spec gets it too, so that the kubelet does not lower it once more.
    fn take_back(&mut self, wish: &Wish, limit: Bytes, target: &str) {
        let text = format!("the limit is {limit} again; the spec still says {}", wish.to);
        let Some(link) = self.kubelet.link.as_ref().filter(|_| self.config.kubernetes.take_back) else {
            self.happened(target, HappeningKind::Verdict, &format!("{text}: kubernetes.take_back is false"));
            return;
        };
        let decision = self.kubelet.backs.begin(wish, limit, wall_us());
        let taken = decision.is_some_and(|decision| link.outbox.decide(decision));
        let how = if taken { "it is patched back" } else { "too many patches wait, and this one is dropped" };
        self.happened(target, HappeningKind::Verdict, &format!("{text}: {how}"));
    }

    fn event(&mut self, wish: &Wish, reason: &'static str, severity: Severity, note: &str) {
        let Some(link) = self.kubelet.link.as_ref().filter(|_| self.config.kubernetes.events) else { return };
        let at_us = wall_us();
        link.outbox.event(Event {
            pod: wish.pod.clone(),
            uid: wish.uid.clone(),
            node: self.kubelet.node.clone(),
            reason,
            action: "Shrink",
            severity,
            note: format!("{}: {note}", wish.container),
            first_us: at_us,
            last_us: at_us,
            count: 1,
        });
    }
}

impl With {
    /// One shrink through the gate, beside the kubelet's own.
    async fn make_way(
        self,
        mut given: Given,
        watch_window: enforcer_gate::Micros,
        within: Duration,
        told: Rc<OnceCell<Way>>,
    ) -> Result<Verdict, Failed> {
        let actor = self.actor(&mut given).await?;
        let Self { pod, container, to, bus, policy, state_dir, .. } = self;
        let policy = enforcer_gate::Policy { watch_window, ..policy };
        let (observer, cancel) = (&mut given.observer, Some(given.cancel));
        let gate = Gate { bus: &bus, policy, state_dir, observer, cancel };
        let way = actor.make_way(Of { pod: &pod, container: &container }, to, within, gate).await;
        let way = way.map_err(|error| crate::chain::chain(&error))?;
        let (verdict, is_taken) = (way.certificate.verdict.clone(), way.is_taken);
        // It is set once.
        let _ = told.set(way);
        if is_taken == Some(false) {
            let why = format!("the kubelet has not lowered it to {to} in time: it is as it was");
            return Err(why.into());
        }
        Ok(verdict)
    }
}
