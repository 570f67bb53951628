use super::*;
use crate::{
    agent::reading::Reading,
    inventory::{Limits, Listing, Located, NoHome, PodState},
};
use enforcer_gate::{Floor, MemoryEvents, MemoryStat, Protection, Sample, SwapRoom};

fn mib(count: u64) -> Bytes {
    Bytes::from_mib(count)
}

fn located(path: &str, id: u64) -> Located {
    Located { path: path.into(), id: CgroupId::new(id) }
}

fn pod() -> Pod {
    Pod {
        sandbox: "s".into(),
        namespace: "n".into(),
        name: "p".into(),
        uid: "u".into(),
        attempt: 0,
        state: PodState::Ready,
        handler: String::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        cgroup: Some(located("pod", 1)),
    }
}

/// A container whose processes are one cgroup deeper, as crun's are.
fn container(id: &str, scope: u64, memory: u64) -> Container {
    let home = Home { scope: located("pod/c", scope), processes: located("pod/c/container", scope + 1) };
    Container {
        id: id.into(),
        sandbox: "s".into(),
        name: format!("c-{id}"),
        attempt: 0,
        image: "i".into(),
        state: ContainerState::Running,
        pid: Some(1),
        home: Ok(home),
        limits: Limits {
            memory: Some(Limit::Bytes(mib(memory))),
            memory_and_swap: Some(Limit::Bytes(mib(memory + 8))),
            cpu_quota: Some(Micros::new(25_000)),
            cpu_period: Some(Micros::new(100_000)),
            cpu_shares: Some(256),
            ..Limits::default()
        },
    }
}

fn inventory(containers: Vec<Container>) -> Inventory {
    let mut inventory = Inventory::default();
    inventory.replace(Listing { pods: vec![pod()], containers, ..Listing::default() });
    inventory
}

fn reading(at: u64, cgroup: u64, limit: u64, floor: u64) -> Reading {
    let sample = Sample {
        current: mib(floor),
        max: Limit::Bytes(mib(limit)),
        high: Limit::Max,
        stat: MemoryStat::default(),
        events_local: MemoryEvents::default(),
        events: MemoryEvents::default(),
        pressure: None,
        protection: Protection::default(),
        swap: SwapRoom::default(),
        hugetlb: Bytes::ZERO,
        populated: true,
        frozen: false,
        frozen_below: None,
        ancestors: Vec::new(),
    };
    Reading {
        at: Instant::new(at * 1_000_000),
        cgroup: located("pod/c/container", cgroup),
        sample,
        floor: Floor { bytes: mib(floor), ..Floor::default() },
        psi_avg10: (0, 0),
    }
}

fn read(book: &mut Book, id: &str, reading: Reading) {
    book.read(Read { id: id.into(), at: reading.at, result: Ok(reading) });
}

#[test]
fn what_comes_moves_and_goes_is_told_once() {
    let mut book = Book::default();
    let first = book.sync(&inventory(vec![container("a", 10, 64), container("b", 20, 64)]));
    let ids = |moved: &Moved| moved.born.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    assert_eq!((ids(&first), first.gone.len(), book.len()), (vec!["a".into(), "b".into()], 0, 2));
    let same = inventory(vec![container("a", 10, 64), container("b", 20, 64)]);
    assert_eq!(book.sync(&same), Moved::default());
    let moved = book.sync(&inventory(vec![container("a", 30, 64)]));
    assert_eq!((ids(&moved), moved.gone), (vec!["a".to_owned()], vec!["b".to_owned()]));
    assert!(book.by_cgroup(CgroupId::new(30)).is_some() && book.by_cgroup(CgroupId::new(10)).is_none());
    assert!(book.by_cgroup(CgroupId::new(20)).is_none());
    // One that does not run, or has no cgroup, is not read.
    let mut ended = container("c", 40, 64);
    ended.state = ContainerState::Exited;
    let mut lost = container("d", 50, 64);
    lost.home = Err(NoHome::Gone);
    let moved = book.sync(&inventory(vec![ended, lost]));
    assert_eq!((moved.born.len(), book.len()), (0, 1));
    assert_eq!(book.get("d").map(Entry::target).as_deref(), Some("pod/n/p:c-d"));
}

#[test]
fn each_file_is_expected_where_it_acts() {
    let mut book = Book::default();
    book.sync(&inventory(vec![container("a", 10, 64)]));
    let (scope, inner) = (CgroupId::new(10), CgroupId::new(11));
    assert_eq!(book.expected(inner, LimitKind::MemoryMax), None, "it was not read yet");
    read(&mut book, "a", reading(1, 11, 64, 20));
    let memory = |bytes| Some(Expected::Value(LimitValue::Memory(Limit::Bytes(mib(bytes)))));
    assert_eq!(book.expected(inner, LimitKind::MemoryMax), memory(64));
    assert_eq!(book.expected(scope, LimitKind::MemoryMax), None, "an old crun leaves it at max there");
    assert_eq!(book.expected(inner, LimitKind::SwapMax), memory(8));
    // A newer one sets memory.max of both, and the scope's limit of swap to something else.
    read(&mut book, "a", reading(2, 10, 64, 20));
    assert_eq!(book.expected(scope, LimitKind::MemoryMax), memory(64));
    assert_eq!(book.expected(scope, LimitKind::SwapMax), None);
    assert_eq!(book.expected(inner, LimitKind::SwapMax), memory(8));
    read(&mut book, "a", reading(3, 11, 64, 20));
    let cpu = LimitValue::Cpu { quota: Some(Micros::new(25_000)), period: Micros::new(100_000) };
    assert_eq!(book.expected(scope, LimitKind::CpuMax), Some(Expected::Value(cpu)));
    assert_eq!(book.expected(scope, LimitKind::CpuWeight), Some(Expected::Shares(256)));
    assert_eq!(book.expected(inner, LimitKind::CpuMax), None);
    assert_eq!(book.expected(CgroupId::new(1), LimitKind::MemoryMax), None, "nobody's");
    book.get_mut("a").expect("is known").in_flight = true;
    assert_eq!(book.expected(inner, LimitKind::MemoryMax), None, "it is being changed");
}

#[test]
fn a_limit_of_our_own_is_no_drift_until_the_runtime_says_something_else() {
    let mut book = Book::default();
    book.sync(&inventory(vec![container("a", 10, 64)]));
    read(&mut book, "a", reading(1, 11, 48, 20));
    let drifts = |book: &Book| book.get("a").and_then(Entry::drift).is_some();
    let at = |seconds: u64| Instant::new(seconds * 1_000_000);
    assert!(drifts(&book));
    book.get_mut("a").expect("is known").ended(at(2), Some(mib(40)));
    // What was read before the change says nothing.
    assert!(!drifts(&book) && book.get("a").and_then(Entry::fresh).is_none());
    read(&mut book, "a", reading(3, 11, 40, 20));
    assert!(!drifts(&book) && book.get("a").and_then(Entry::fresh).is_some());
    // The runtime says the old value for a while.
    book.sync(&inventory(vec![container("a", 10, 64)]));
    assert!(!drifts(&book));
    book.sync(&inventory(vec![container("a", 10, 40)]));
    assert!(!drifts(&book));
    // Somebody has it set to something else.
    book.sync(&inventory(vec![container("a", 10, 64)]));
    assert!(drifts(&book));
    // The runtime had it before the change was heard to have ended.
    book.sync(&inventory(vec![container("a", 10, 40)]));
    book.get_mut("a").expect("is known").ended(at(4), Some(mib(40)));
    read(&mut book, "a", reading(5, 11, 40, 20));
    assert!(!drifts(&book));
    book.sync(&inventory(vec![container("a", 10, 64)]));
    assert!(drifts(&book));
}

#[test]
fn what_is_expected_is_found_by_path_as_well() {
    let mut book = Book::default();
    book.sync(&inventory(vec![container("a", 10, 64)]));
    read(&mut book, "a", reading(1, 11, 64, 20));
    let (scope, inner) = (Path::new("pod/c"), Path::new("pod/c/container"));
    for (path, id, file) in [(inner, 11, LimitKind::MemoryMax), (scope, 10, LimitKind::CpuMax)] {
        let found = book.expected_at(path, file);
        assert!(found.is_some() && found == book.expected(CgroupId::new(id), file), "{path:?}");
    }
    assert_eq!(book.expected_at(Path::new("pod"), LimitKind::MemoryMax), None);
    book.get_mut("a").expect("is known").in_flight = true;
    assert_eq!(book.expected_at(inner, LimitKind::MemoryMax), None);
}

#[test]
fn the_safe_minimum_is_over_the_highest_floor_and_the_fastest_growth() {
    let mut book = Book::default();
    book.sync(&inventory(vec![container("a", 10, 64)]));
    let policy = Policy::default();
    let safe = |book: &Book| book.get("a").and_then(|entry| entry.safe_minimum(&policy));
    assert_eq!(safe(&book), None);
    read(&mut book, "a", reading(1, 11, 64, 20));
    let calm = safe(&book).expect("was read");
    assert_eq!(calm, safe_minimum(mib(20), Bytes::ZERO, &policy));
    read(&mut book, "a", reading(3, 11, 64, 30));
    read(&mut book, "a", reading(5, 11, 64, 10));
    assert_eq!(safe(&book), Some(safe_minimum(mib(30), mib(5), &policy)));
    // What failed is told, and what was read stays.
    let fail = |book: &mut Book, at: u64| {
        let result = Err(crate::cgroup::CgroupError::Gone { path: "x".into() });
        book.read(Read { id: "a".into(), at: Instant::new(at * 1_000_000), result });
    };
    fail(&mut book, 7);
    assert!(book.get("a").expect("is known").trouble.is_some() && safe(&book).is_some());
    // Until it says nothing any more.
    fail(&mut book, 1000);
    assert_eq!(safe(&book), None);
    read(&mut book, "nobody", reading(6, 1, 1, 1));
    assert_eq!(book.len(), 1);
}
