use super::*;
use crate::overhead::{
    Term,
    fake_node::{MIB, Node, POD, scope},
};

const LONG: Duration = Duration::from_mins(1);
const OFTEN: Pace = Pace { interval: Duration::from_millis(1), reads_per_second: 1_000_000 };

fn named(name: &str, subject: Subject) -> Named {
    Named { namespace: "n".into(), pod: name.into(), subject }
}

fn one(name: &str) -> BTreeMap<String, Named> {
    BTreeMap::from([("a".repeat(64), named(name, Node::subject()))])
}

/// The figures, once they are as wanted.
fn until(
    overheads: &Overheads,
    wanted: impl Fn(&[OverheadGauges], Spent) -> bool,
) -> (Vec<OverheadGauges>, Spent) {
    let began = Instant::now();
    loop {
        let (figures, spent) = overheads.figures();
        if wanted(&figures, spent) {
            return (figures, spent);
        }
        assert!(began.elapsed() < LONG, "{figures:?} {spent:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_pod_is_looked_at_again_and_again_until_it_is_gone() {
    let node = Node::new();
    let overheads = Overheads::start(node.proc(), node.mount(), OFTEN).expect("starts");
    overheads.follow(one("p"));
    let (figures, _) = until(&overheads, |figures, _| !figures.is_empty());
    assert_eq!((figures[0].namespace.as_str(), figures[0].pod.as_str(), figures[0].helpers), ("n", "p", 1));
    assert_eq!(figures[0].terms[&Term::PodAnon].get(), 2 * MIB);
    assert_eq!((figures[0].terms[&Term::HelperAnon].get(), figures[0].residue.get()), (4 * MIB, 0));
    // The pod uses CPU time beyond its container's, and a container that was restarted has left something.
    node.used(1900, 500);
    node.uses(POD, 60, 10, 40);
    node.tree.write(&format!("{POD}/cgroup.stat"), "nr_descendants 2\nnr_dying_descendants 1\n");
    let (figures, spent) =
        until(&overheads, |figures, _| figures[0].residue.get() > 0 && figures[0].cpu.get() >= 1000);
    assert_eq!((figures[0].residue.get(), figures[0].cpu.get()), (23 * MIB, 1000));
    assert!(spent.reads > 0, "{spent:?}");
    overheads.follow(BTreeMap::new());
    assert_eq!(overheads.figures().0, []);
}

#[test]
fn what_can_not_be_read_is_counted_and_the_last_figures_stay() {
    let node = Node::new();
    let overheads = Overheads::start(node.proc(), node.mount(), OFTEN).expect("starts");
    overheads.follow(one("p"));
    let (before, _) = until(&overheads, |figures, _| !figures.is_empty());
    node.tree.write(&format!("{}/memory.current", scope('b')), "much\n");
    let (after, _) = until(&overheads, |_, spent| spent.incomplete > 2);
    assert_eq!(before, after);
}

#[test]
fn it_reads_no_more_than_it_may() {
    let node = Node::new();
    // One look takes more than an hour's worth.
    let pace = Pace { interval: Duration::ZERO, reads_per_second: 1 };
    let overheads = Overheads::start(node.proc(), node.mount(), pace).expect("starts");
    let pods = ['c', 'd', 'e'].map(|letter| (String::from(letter).repeat(64), named("p", Node::subject())));
    overheads.follow(pods.into());
    let (_, first) = until(&overheads, |figures, _| figures.len() == 1);
    assert!(first.reads >= 8, "{first:?}");
    // In the time that the look has to be paid for with there is no other: eight seconds at the least.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(overheads.figures().1.reads, first.reads);
    // A new pace holds from the next look on, and the end does not wait.
    let began = Instant::now();
    drop(overheads);
    assert!(began.elapsed() < LONG);
}

#[test]
fn other_containers_begin_anew_and_what_was_used_stays() {
    let node = Node::new();
    let overheads = Overheads::start(node.proc(), node.mount(), OFTEN).expect("starts");
    overheads.follow(one("p"));
    until(&overheads, |figures, _| !figures.is_empty());
    node.used(1400, 500);
    until(&overheads, |figures, _| figures[0].cpu.get() == 500);
    let mut subject = Node::subject();
    subject.sandbox.containers.push("f".repeat(64));
    overheads.follow(BTreeMap::from([("a".repeat(64), named("p", subject))]));
    let (_, spent) = overheads.figures();
    let (figures, _) = until(&overheads, |_, now| now.reads > spent.reads + 60);
    assert_eq!(figures[0].cpu.get(), 500);
}

#[test]
fn there_is_a_bound() {
    let node = Node::new();
    let overheads = Overheads::start(node.proc(), node.mount(), OFTEN).expect("starts");
    let pods = (0..PODS_MAX + 3).map(|number| (format!("{number:064}"), named("p", Node::subject())));
    overheads.follow(pods.collect());
    let (figures, spent) = until(&overheads, |figures, _| figures.len() == PODS_MAX);
    assert_eq!((figures.len(), spent.left_out), (PODS_MAX, 3));
}
