//! The watch against a runtime that does as a script says, and a /proc and a tree of cgroups to go with it.

use super::super::{Step, known::Found, model::NoHome};
use super::*;
use crate::{
    cgroup::Mount,
    cri::message::{
        self, ContainerEventResponse, ContainerMetadata, ContainerStatusResponse, ListContainersResponse,
        ListPodSandboxResponse, PodSandboxMetadata, PodSandboxStatusResponse,
    },
};
use enforcer_test_cri::{Reply, Server};
use prost::Message;
use std::collections::BTreeMap;
use tokio::time::timeout;

const POD: &str = "kubepods.slice/kubepods-pod1.slice";
/// Longer than any test may take.
const NEVER: Duration = Duration::from_hours(1);

/// What the runtime has: names of containers that run, all in one pod. A name is its id as well.
#[derive(Clone, Default)]
struct Node(Arc<Mutex<NodeState>>);

#[derive(Default)]
struct NodeState {
    containers: BTreeSet<String>,
    hangs: bool,
    streams: Vec<mpsc::Receiver<Vec<u8>>>,
}

impl Node {
    fn set(&self, containers: &[&str]) {
        self.state().containers = containers.iter().map(|name| (*name).to_owned()).collect();
    }

    fn state(&self) -> MutexGuard<'_, NodeState> {
        self.0.lock().expect("nobody panicked")
    }

    /// The next stream that is asked for; there is none but those.
    fn stream(&self) -> mpsc::Sender<Vec<u8>> {
        let (events, source) = mpsc::channel(16);
        self.state().streams.push(source);
        events
    }

    fn reply(&self, call: &str, request: &[u8]) -> Reply {
        let mut state = self.state();
        if state.hangs {
            return Reply::Hang;
        }
        let wanted =
            || message::IdFilter::decode(request.get(2..).unwrap_or_default()).unwrap_or_default().id;
        match call {
            "ListContainers" => {
                let wanted = wanted();
                let all = state.containers.iter().filter(|name| wanted.is_empty() || **name == wanted);
                Reply::of(&ListContainersResponse { containers: all.map(|name| container(name)).collect() })
            }
            "ListPodSandbox" => {
                let metadata = PodSandboxMetadata {
                    name: "web".into(),
                    namespace: "default\u{1b}".into(),
                    uid: "1".into(),
                    attempt: 0,
                };
                let pod = message::PodSandbox {
                    id: "pause".into(),
                    metadata: Some(metadata),
                    ..message::PodSandbox::default()
                };
                Reply::of(&ListPodSandboxResponse { items: vec![pod] })
            }
            "ContainerStatus" => {
                let asked = message::ContainerStatusRequest::decode(request).expect("decodes");
                if !state.containers.contains(&asked.container_id) {
                    return Reply::Status(5, "not found");
                }
                let said = container(&asked.container_id);
                let status = message::ContainerStatus {
                    id: said.id,
                    state: said.state,
                    ..message::ContainerStatus::default()
                };
                let info = BTreeMap::from([("info".into(), "{\"pid\":7}".into())]);
                Reply::of(&ContainerStatusResponse { status: Some(status), info })
            }
            "PodSandboxStatus" => {
                let said =
                    r#"{"runtimeSpec":{"linux":{"cgroupsPath":"kubepods-pod1.slice:cri-containerd:pause"}}}"#;
                let info = BTreeMap::from([("info".into(), said.into())]);
                let status = Some(message::PodSandboxStatus::default());
                Reply::of(&PodSandboxStatusResponse { status, info })
            }
            "GetContainerEvents" => match state.streams.pop() {
                Some(source) => Reply::Stream(source),
                None => Reply::Status(12, "unknown method GetContainerEvents"),
            },
            other => panic!("{other} is not asked for"),
        }
    }
}

fn container(name: &str) -> message::Container {
    message::Container {
        id: name.into(),
        pod_sandbox_id: "pause".into(),
        metadata: Some(ContainerMetadata { name: name.into(), attempt: 0 }),
        state: message::CONTAINER_RUNNING,
        ..message::Container::default()
    }
}

fn event(id: &str) -> Vec<u8> {
    ContainerEventResponse { container_id: id.into(), ..ContainerEventResponse::default() }.encode_to_vec()
}

struct Rig {
    node: Node,
    server: Server,
    locator: Locator,
    _folders: [tempfile::TempDir; 2],
}

impl Rig {
    fn start() -> Self {
        let [tree, proc] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let scope = format!("{POD}/cri-containerd-a.scope");
        std::fs::create_dir_all(tree.path().join(&scope)).expect("makes it");
        std::fs::create_dir_all(proc.path().join("7")).expect("makes it");
        std::fs::write(proc.path().join("7/cgroup"), format!("0::/{scope}\n")).expect("writes");
        let mount = Arc::new(Mount::at(tree.path(), true, true).expect("a tree"));
        let locator = Locator::in_tree(mount, proc.path());
        let node = Node::default();
        node.set(&["a"]);
        let script = node.clone();
        let server = Server::start(move |call, request| script.reply(call, request));
        Self { node, server, locator, _folders: [tree, proc] }
    }

    fn watch(&self, tempo: Tempo) -> Watch {
        watch(self.server.socket(), self.locator.clone(), tempo)
    }

    fn count(&self, call: &str) -> usize {
        self.server.calls(call)
    }
}

/// Lists once, and then only where there is a reason.
fn patient() -> Tempo {
    Tempo {
        deadline: Duration::from_mins(1),
        relist: NEVER,
        relist_without_events: NEVER,
        status: Duration::ZERO,
        hint: Duration::from_millis(10),
        back_off: (Duration::from_millis(10), Duration::from_millis(100)),
        events: false,
    }
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { timeout(Duration::from_mins(2), test).await.expect("it ends") });
}

fn words(update: Option<Update>) -> String {
    let step = |change: &Change| match change {
        Change::Pod(Step::Born(pod)) => format!(" +{}", pod.sandbox),
        Change::Pod(Step::Died(pod)) => format!(" -{}", pod.sandbox),
        Change::Container(Step::Born(container)) => format!(" +{}", container.id),
        Change::Container(Step::Died(container)) => format!(" -{}", container.id),
        Change::Pod(Step::Changed { .. }) | Change::Container(Step::Changed { .. }) => " ~".into(),
    };
    match update {
        Some(Update::Current(changes)) => format!("current{}", changes.iter().map(step).collect::<String>()),
        Some(Update::Changed(changes)) => format!("changed{}", changes.iter().map(step).collect::<String>()),
        Some(Update::Lost(error)) => format!("lost: {error}"),
        None => "end".into(),
    }
}

#[test]
fn a_first_listing_then_what_events_name() {
    block_on(async {
        let rig = Rig::start();
        let events = rig.node.stream();
        let mut watch = rig.watch(Tempo { events: true, ..patient() });
        assert_eq!(words(watch.next().await), "current +pause +a");
        {
            let inventory = watch.inventory();
            let home = inventory.container("a").expect("known").home.clone().expect("has one");
            assert!(
                matches!(inventory.by_cgroup(home.scope.id), Some(Found::Container(found)) if found.id == "a")
            );
            let pod = inventory.pod("pause").expect("known");
            assert_eq!(pod.cgroup.as_ref().map(|cgroup| cgroup.path.as_path()), Some(Path::new(POD)));
        }
        rig.node.set(&["a", "b"]);
        events.send(event("b")).await.expect("sends");
        assert_eq!(words(watch.next().await), "changed +b");
        // The process that it names is a's.
        let home = watch.inventory().container("b").expect("known").home.clone();
        assert!(matches!(home, Err(NoHome::Elsewhere(_))), "{home:?}");
        rig.node.set(&["b"]);
        events.send(event("a")).await.expect("sends");
        assert_eq!(words(watch.next().await), "changed -a");
        assert_eq!(rig.count("ListPodSandbox"), 2, "the listing, and the id that is no container's any more");
    });
}

#[test]
fn an_event_of_no_id_asks_for_nothing() {
    block_on(async {
        let rig = Rig::start();
        let events = rig.node.stream();
        let mut watch = rig.watch(Tempo { events: true, ..patient() });
        assert_eq!(words(watch.next().await), "current +pause +a");
        rig.node.set(&["a", "b"]);
        let before = rig.count("ListContainers");
        for id in ["", "../b", "b\u{1b}", &"b".repeat(1 << 20)] {
            events.send(event(id)).await.expect("sends");
        }
        events.send(event("b")).await.expect("sends");
        assert_eq!(words(watch.next().await), "changed +b");
        assert_eq!(rig.count("ListContainers") - before, 1);
    });
}

#[test]
fn a_stream_that_breaks_is_made_up_for() {
    block_on(async {
        let rig = Rig::start();
        let events = rig.node.stream();
        let mut watch = rig.watch(Tempo { events: true, ..patient() });
        assert_eq!(words(watch.next().await), "current +pause +a");
        rig.node.set(&["b"]);
        let again = rig.node.stream();
        drop(events);
        assert_eq!(words(watch.next().await), "changed -a +b");
        rig.node.set(&["b", "c"]);
        again.send(event("c")).await.expect("sends");
        assert_eq!(words(watch.next().await), "changed +c");
    });
}

#[test]
fn without_events_listings_find_it() {
    block_on(async {
        let rig = Rig::start();
        let often = Duration::from_millis(20);
        let mut watch = rig.watch(Tempo { events: true, relist_without_events: often, ..patient() });
        assert_eq!(words(watch.next().await), "current +pause +a");
        rig.node.set(&[]);
        assert_eq!(words(watch.next().await), "changed -a");
        rig.node.set(&["b"]);
        assert_eq!(words(watch.next().await), "changed +b");
        let (lists, asked) = (rig.count("ListContainers"), rig.count("GetContainerEvents"));
        assert!(asked <= 1 + lists, "{asked} times asked for events, {lists} listings");
    });
}

#[test]
fn a_hint_brings_listings_until_all_is_quiet() {
    block_on(async {
        let rig = Rig::start();
        let mut watch = rig.watch(patient());
        assert_eq!(words(watch.next().await), "current +pause +a");
        let hints = watch.hints();
        for _ in 0..1000 {
            hints.hint();
        }
        rig.node.set(&["a", "b"]);
        assert_eq!(words(watch.next().await), "changed +b");
        // Four for a hint, as the cgroup is there first.
        while rig.count("ListContainers") < 5 {
            sleep(Duration::from_millis(5)).await;
        }
        sleep(Duration::from_millis(200)).await;
        assert_eq!(rig.count("ListContainers"), 5);
    });
}

#[test]
fn one_that_was_heard_of_is_looked_at_until_it_is_as_heard() {
    block_on(async {
        let rig = Rig::start();
        rig.node.set(&[]);
        let mut watch = rig.watch(patient());
        assert_eq!(words(watch.next().await), "current +pause");
        let hints = watch.hints();
        hints.look_at("a", Cue::Born);
        // The cgroup is there first.
        while rig.count("ListContainers") < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        rig.node.set(&["a"]);
        assert_eq!(words(watch.next().await), "changed +a");
        hints.look_at("a", Cue::Died);
        rig.node.set(&[]);
        assert_eq!(words(watch.next().await), "changed -a");
        let looks = rig.count("ListContainers");
        assert!(looks <= 1 + 4 + 4, "{looks}");
        // What is known already is no reason to ask.
        hints.look_at("pause", Cue::Born);
        hints.look_at("a", Cue::Died);
        hints.look_at("never seen", Cue::Died);
        sleep(Duration::from_millis(200)).await;
        assert_eq!(rig.count("ListContainers"), looks);
        hints.look_at("pause", Cue::Changed);
        while rig.count("ListContainers") == looks {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(rig.count("ListContainers"), looks + 1);
    });
}

#[test]
fn a_listing_asks_only_about_those_of_which_it_is_time() {
    block_on(async {
        let rig = Rig::start();
        let often = Duration::from_millis(5);
        let listed = async |status, count| {
            let mut watch = rig.watch(Tempo { relist_without_events: often, status, ..patient() });
            assert_eq!(words(watch.next().await), "current +pause +a");
            let before = rig.count("ListContainers");
            while rig.count("ListContainers") < before + count {
                sleep(often).await;
            }
        };
        listed(NEVER, 5).await;
        assert_eq!(rig.count("ContainerStatus"), 1);
        listed(Duration::ZERO, 5).await;
        assert!(rig.count("ContainerStatus") >= 5, "{}", rig.count("ContainerStatus"));
    });
}

#[test]
fn a_runtime_that_goes_and_comes_is_told_and_made_up_for() {
    block_on(async {
        let mut rig = Rig::start();
        let events = rig.node.stream();
        let mut watch = rig.watch(Tempo { events: true, ..patient() });
        assert_eq!(words(watch.next().await), "current +pause +a");
        rig.server.kill();
        let lost = words(watch.next().await);
        assert!(lost.starts_with("lost: "), "{lost}");
        assert!(watch.inventory().container("a").is_some(), "what was known stays");
        drop(events);
        rig.node.set(&["b"]);
        let _events = rig.node.stream();
        rig.server.restart();
        assert_eq!(words(watch.next().await), "current -a +b");
    });
}

#[test]
fn a_runtime_that_hangs_is_told_once_and_asked_again() {
    block_on(async {
        let rig = Rig::start();
        let short = Duration::from_millis(50);
        // What answers at all does so in this time, also on a busy machine.
        let deadline = Duration::from_millis(500);
        let mut watch = rig.watch(Tempo { deadline, relist_without_events: short, ..patient() });
        assert_eq!(words(watch.next().await), "current +pause +a");
        rig.node.state().hangs = true;
        let lost = words(watch.next().await);
        assert!(lost.contains("no answer to ListContainers within 500ms"), "{lost}");
        let asked = rig.count("ListContainers");
        while rig.count("ListContainers") < asked + 3 {
            sleep(short).await;
        }
        rig.node.state().hangs = false;
        assert_eq!(words(watch.next().await), "current");
    });
}

#[test]
fn a_runtime_that_is_not_there_is_told_and_waited_for() {
    block_on(async {
        let mut rig = Rig::start();
        rig.server.kill();
        let mut watch = rig.watch(patient());
        let lost = words(watch.next().await);
        assert!(lost.contains("can't connect"), "{lost}");
        rig.server.restart();
        assert_eq!(words(watch.next().await), "current +pause +a");
    });
}

#[test]
fn names_of_cgroups_that_are_worth_a_look() {
    let id = "a1".repeat(32);
    for (name, is) in [
        (format!("cri-containerd-{id}.scope"), true),
        (format!("crio-{id}.scope"), true),
        (id.clone(), true),
        (format!("crio-conmon-{id}.scope"), false),
        ("cron.service".into(), false),
        (String::new(), false),
    ] {
        assert_eq!(id_in(&name), is.then(|| id.clone()), "{name}");
    }
}
