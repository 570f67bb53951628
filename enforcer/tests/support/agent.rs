//! An agent of which only the admin socket is real.

use enforcer::admin::{
    Counts, Listener, Question, Refused, Reply, Request,
    model::{ContainerView, Done, Explanation, Refusal, Status},
    serve,
};
use enforcer::health::Health;
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};
use tokio::sync::{mpsc, oneshot};

/// What it says, and what it was asked.
pub(crate) struct Says {
    pub(crate) status: Status,
    pub(crate) containers: Vec<ContainerView>,
    pub(crate) asked: Vec<Request>,
    /// What pauses still find under way, one after the other.
    pub(crate) under_way: Vec<String>,
}

/// While this lives it answers.
pub(crate) struct Agent {
    says: Arc<Mutex<Says>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    pub(crate) fn start(socket: &Path, containers: usize) -> Self {
        let containers: Vec<_> = (0..containers).map(container).collect();
        let status = status(containers.len());
        let says =
            Arc::new(Mutex::new(Says { status, containers, asked: Vec::new(), under_way: Vec::new() }));
        let listener = Listener::bind(socket).expect("listens");
        let (stop, stopped) = oneshot::channel::<()>();
        let answers = says.clone();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let (sender, questions) = mpsc::channel(4);
            let stop = async {
                let _ = stopped.await;
            };
            let serving = serve(listener, sender, Health::new(), Arc::new(Counts::default()), stop);
            let answering = answer(questions, &answers);
            runtime.block_on(async { tokio::join!(serving, answering).0.expect("serves") });
        });
        Self { says, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn says(&self) -> MutexGuard<'_, Says> {
        self.says.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

async fn answer(mut questions: mpsc::Receiver<Question>, says: &Mutex<Says>) {
    while let Some((request, reply)) = questions.recv().await {
        let mut says = says.lock().unwrap_or_else(PoisonError::into_inner);
        says.asked.push(request.clone());
        let switch = |says: &mut Says, paused: bool, text: &str| {
            says.status.paused = paused;
            let under_way = if paused { says.under_way.pop().into_iter().collect() } else { Vec::new() };
            Reply::Done(Done { paused, text: text.into(), under_way })
        };
        let answer = match request {
            Request::Status => Reply::Status(Box::new(says.status.clone())),
            Request::Containers => Reply::Containers(says.containers.clone()),
            Request::Explain(target) => {
                let all = says.containers.iter();
                let containers: Vec<_> = all
                    .filter(|view| view.pod == target.name)
                    .filter(|view| target.container.as_ref().is_none_or(|name| *name == view.container))
                    .cloned()
                    .collect();
                if containers.is_empty() {
                    let error = format!("the runtime has no pod {target}");
                    Reply::Refused(Refused::NoSuch, Refusal { error, todo: "enforcer ps lists them".into() })
                } else {
                    Reply::Explanation(Box::new(Explanation {
                        containers,
                        in_flight: says.status.in_flight.clone(),
                        recent: says.status.recent.clone(),
                        paused: says.status.paused,
                    }))
                }
            }
            Request::Pause => switch(&mut says, true, "paused: 1 shrink was taken back"),
            Request::Resume => switch(&mut says, false, "resumed"),
            Request::Reload => {
                let error = "enforcer.toml: line 3: there is no key \"mod\"".into();
                Reply::Refused(
                    Refused::Configuration,
                    Refusal { error, todo: "enforcer config check".into() },
                )
            }
        };
        let _ = reply.send(answer);
    }
}

fn status(containers: usize) -> Status {
    parsed(json!({
        "version": "0.1.0", "pid": 42, "uptime": 7_325_000_000_u64, "kernel": "6.12.1", "paused": false,
        "parts": [
            { "name": "inventory", "state": "ready", "why": "" },
            { "name": "guard", "state": "off", "why": "" },
        ],
        "pods": 1, "containers": containers, "in_flight": [], "lost": {},
        "recent": [{
            "at_us": 1_796_000_000_000_000_u64, "target": "pod/shop/web-0:main", "kind": "oom",
            "text": "sh (process 77) was killed",
        }],
    }))
}

fn container(number: usize) -> ContainerView {
    parsed(json!({
        "namespace": "shop", "pod": format!("web-{number}"), "container": "main", "id": format!("c{number}"),
        "handler": "runc", "image": "image", "cgroup": "a.slice", "limit_cgroup": "a.slice",
        "usage": 64 << 20, "limit": { "bytes": 128 << 20 }, "high": null, "runtime_limit": { "bytes": 128 << 20 }, "pod_limit": null,
        "floor": 32 << 20, "floor_terms": { "anon": 32 << 20 }, "safe_minimum": 48 << 20,
        "psi_some_avg10": 900_usize.saturating_sub(number), "psi_full_avg10": 0, "refaults": 0, "oom_kills": 0,
        "policy": "observe", "policy_state": "", "last_verdict": "", "drift": [], "missing": "",
    }))
}

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("it is one")
}
