//! Tests of [`super::Inventory`], and the pods and containers that other tests use.

use super::super::{ContainerState, Home, Limits, Located, NoHome, PodState};
use super::*;
use proptest::prelude::*;

pub(in crate::inventory) fn pod(sandbox: &str, name: &str) -> Pod {
    Pod {
        sandbox: sandbox.into(),
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        attempt: 0,
        state: PodState::Ready,
        handler: String::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        cgroup: None,
    }
}

pub(in crate::inventory) fn container(id: &str, sandbox: &str, name: &str) -> Container {
    Container {
        id: id.into(),
        sandbox: sandbox.into(),
        name: name.into(),
        attempt: 0,
        image: "image".into(),
        state: ContainerState::Running,
        pid: Some(1),
        home: Err(NoHome::Gone),
        limits: Limits::default(),
    }
}

fn located(path: &str, id: u64) -> Located {
    Located { path: path.into(), id: CgroupId::new(id) }
}

fn at_home(id: &str, sandbox: &str, number: u64) -> Container {
    let scope = located(&format!("pod/{id}"), number);
    let processes = located(&format!("pod/{id}/container"), number + 1);
    Container { home: Ok(Home { scope, processes }), ..container(id, sandbox, "main") }
}

fn words(changes: &[Change]) -> Vec<String> {
    let word = |change: &Change| match change {
        Change::Pod(Step::Born(pod)) => format!("+{}", pod.sandbox),
        Change::Pod(Step::Died(pod)) => format!("-{}", pod.sandbox),
        Change::Pod(Step::Changed { after, .. }) => format!("~{}", after.sandbox),
        Change::Container(Step::Born(container)) => format!("+{}", container.id),
        Change::Container(Step::Died(container)) => format!("-{}", container.id),
        Change::Container(Step::Changed { after, .. }) => format!("~{}", after.id),
    };
    changes.iter().map(word).collect()
}

fn listing(pods: Vec<Pod>, containers: Vec<Container>) -> Listing {
    Listing { pods, containers, ..Listing::default() }
}

#[test]
fn a_listing_tells_what_changed() {
    let mut inventory = Inventory::default();
    let first = listing(vec![pod("p", "a")], vec![container("c", "p", "x"), container("d", "p", "y")]);
    assert_eq!(words(&inventory.replace(first.clone())), ["+p", "+c", "+d"]);
    assert_eq!(words(&inventory.replace(first)), Vec::<String>::new());
    let ended = Container { state: ContainerState::Exited, ..container("c", "p", "x") };
    let second = listing(vec![pod("p", "a"), pod("q", "b")], vec![ended]);
    assert_eq!(words(&inventory.replace(second)), ["-d", "+q", "~c"]);
    assert_eq!(words(&inventory.replace(Listing::default())), ["-c", "-p", "-q"]);
}

#[test]
fn news_tell_what_changed() {
    let mut inventory = Inventory::default();
    assert_eq!(words(&inventory.apply(Event::Pod(pod("p", "a")))), ["+p"]);
    assert_eq!(words(&inventory.apply(Event::Container(at_home("c", "p", 7)))), ["+c"]);
    assert_eq!(words(&inventory.apply(Event::Container(at_home("c", "p", 7)))), Vec::<String>::new());
    assert_eq!(words(&inventory.apply(Event::Container(at_home("c", "p", 9)))), ["~c"]);
    assert_eq!(words(&inventory.apply(Event::ContainerGone("x".into()))), Vec::<String>::new());
    assert_eq!(words(&inventory.apply(Event::PodGone("p".into()))), ["-c", "-p"]);
    assert!(inventory.by_path.is_empty() && inventory.by_cgroup.is_empty());
}

#[test]
fn a_cgroup_is_found_by_id_and_by_any_path_below() {
    let mut inventory = Inventory::default();
    inventory.apply(Event::Pod(Pod { cgroup: Some(located("pod", 5)), ..pod("p", "a") }));
    inventory.apply(Event::Container(at_home("c", "p", 7)));
    let by_path = |path: &str| match inventory.by_path(Path::new(path)) {
        Some(Found::Pod(pod)) => pod.sandbox.clone(),
        Some(Found::Container(container)) => container.id.clone(),
        None => String::new(),
    };
    for (path, owner) in [
        ("pod/c", "c"),
        ("/pod/c/", "c"),
        ("/pod/c/container", "c"),
        ("/pod/c/container/deep/er", "c"),
        ("pod/c/beside", "c"),
        ("pod", "p"),
        ("pod/pause", "p"),
        ("pod/cc", "p"),
        ("po", ""),
        ("", ""),
        ("/", ""),
    ] {
        assert_eq!(by_path(path), owner, "{path:?}");
    }
    for id in [7, 8] {
        let found = inventory.by_cgroup(CgroupId::new(id));
        assert!(matches!(found, Some(Found::Container(found)) if found.id == "c"), "{id}: {found:?}");
    }
    assert!(matches!(inventory.by_cgroup(CgroupId::new(5)), Some(Found::Pod(_))));
    assert_eq!(inventory.by_cgroup(CgroupId::new(9)), None);
}

#[test]
fn a_path_that_was_taken_over_stays_with_who_has_it() {
    let mut inventory = Inventory::default();
    let same = |id: &str| Container { home: at_home("x", "p", 7).home, ..container(id, "p", "main") };
    inventory.apply(Event::Container(same("old")));
    inventory.apply(Event::Container(same("new")));
    inventory.apply(Event::ContainerGone("old".into()));
    assert!(
        matches!(inventory.by_path(Path::new("pod/x")), Some(Found::Container(found)) if found.id == "new")
    );
}

#[test]
fn it_is_bounded() {
    let mut inventory = Inventory::default();
    let pods = (0..PODS_MAX + 3).map(|n| pod(&format!("p{n}"), "a")).collect();
    assert_eq!(inventory.replace(listing(pods, Vec::new())).len(), PODS_MAX);
    assert_eq!((inventory.pods().count(), inventory.surplus()), (PODS_MAX, 3));
}

#[derive(Debug, Clone)]
enum Act {
    Put(u8, u64),
    Gone(u8),
    PodGone(u8),
    Replace(Vec<(u8, u64)>),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (0..6_u8, 0..4_u64).prop_map(|(id, home)| Act::Put(id, home)),
        (0..6_u8).prop_map(Act::Gone),
        (0..2_u8).prop_map(Act::PodGone),
        proptest::collection::vec((0..6_u8, 0..4_u64), 0..6).prop_map(Act::Replace),
    ];
    proptest::collection::vec(act, 0..20)
}

proptest! {
    /// Whoever follows the changes has the same as the inventory, and indexes hold what is there and nothing else.
    #[test]
    fn changes_lead_to_the_same(acts in acts()) {
        let one = |id: u8, home: u64| at_home(&format!("c{id}"), &format!("p{}", id % 2), 10 * (home + 1));
        let mut inventory = Inventory::default();
        let mut follower: BTreeMap<String, Arc<Container>> = BTreeMap::new();
        for act in acts {
            let changes = match act {
                Act::Put(id, home) => inventory.apply(Event::Container(one(id, home))),
                Act::Gone(id) => inventory.apply(Event::ContainerGone(format!("c{id}"))),
                Act::PodGone(id) => inventory.apply(Event::PodGone(format!("p{id}"))),
                Act::Replace(all) => {
                    inventory.replace(listing(Vec::new(), all.iter().map(|(id, home)| one(*id, *home)).collect()))
                }
            };
            for change in changes {
                match change {
                    Change::Container(Step::Born(new)) => {
                        prop_assert!(follower.insert(new.id.clone(), new).is_none());
                    }
                    Change::Container(Step::Changed { before, after }) => {
                        prop_assert_eq!(follower.insert(after.id.clone(), after), Some(before));
                    }
                    Change::Container(Step::Died(old)) => {
                        prop_assert_eq!(follower.remove(&old.id), Some(old));
                    }
                    Change::Pod(_) => {}
                }
            }
            prop_assert_eq!(&follower, &inventory.containers);
            for owner in inventory.by_path.values().chain(inventory.by_cgroup.values()) {
                prop_assert!(inventory.owned(owner).is_some(), "{owner:?}");
            }
        }
    }
}
