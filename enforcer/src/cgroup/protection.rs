//! What `memory.min` and `memory.low` keep from reclaim aimed at one cgroup. No I/O.
//!
//! Follows `page_counter_calculate_protection` and `effective_protection` (`mm/page_counter.c`, before 6.11 in
//! `mm/memcontrol.c`): the protection of the cgroup that reclaim is aimed at, and of its ancestors, does not
//! count (`mem_cgroup_unprotected`); its children have what they ask for; further down a parent's share is
//! divided by what the children claim.

use enforcer_gate::{Bytes, Protection};

/// One cgroup of the subtree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// `memory.current`.
    pub usage: Bytes,
    /// `memory.min`, `Max` as `u64::MAX`.
    pub min: Bytes,
    /// `memory.low`, `Max` as `u64::MAX`.
    pub low: Bytes,
    /// What reclaim could take of this cgroup and those below it, were nothing protected.
    pub takeable: Bytes,
    /// The cgroups right below.
    pub children: Vec<Node>,
}

/// Sums over everything below `target` what reclaim aimed at `target` passes over.
///
/// `recursive` is the mount option `memory_recursiveprot`.
pub fn protection(target: &Node, recursive: bool) -> Protection {
    let mut kept = Kept::default();
    for child in &target.children {
        let effective = Effective { min: child.min, low: child.low };
        keep(child, effective, recursive, &mut kept);
    }
    Protection { min: kept.min, low: kept.either.saturating_sub(kept.min) }
}

#[derive(Default)]
struct Kept {
    min: Bytes,
    either: Bytes,
}

#[derive(Clone, Copy)]
struct Effective {
    min: Bytes,
    low: Bytes,
}

fn keep(node: &Node, effective: Effective, recursive: bool, kept: &mut Kept) {
    let below: Bytes = node.children.iter().map(|child| child.takeable).sum();
    // Reclaim takes a cgroup's own lists, and its children's under their own protection.
    let own = node.takeable.saturating_sub(below);
    kept.min = kept.min.saturating_add(share(own, effective.min, node.usage));
    kept.either = kept.either.saturating_add(share(own, effective.min.max(effective.low), node.usage));
    let claimed = |setting: fn(&Node) -> Bytes| -> Bytes {
        node.children.iter().map(|child| child.usage.min(setting(child))).sum()
    };
    let (min_claimed, low_claimed) = (claimed(|child| child.min), claimed(|child| child.low));
    for child in &node.children {
        let of = |setting, parent, claimed| {
            effective_protection(child.usage, node.usage, setting, parent, claimed, recursive)
        };
        let effective = Effective {
            min: of(child.min, effective.min, min_claimed),
            low: of(child.low, effective.low, low_claimed),
        };
        keep(child, effective, recursive, kept);
    }
}

/// The kernel scans each list less `protection / usage` of it, and none of it where usage is within.
fn share(own: Bytes, protection: Bytes, usage: Bytes) -> Bytes {
    if protection >= usage { own } else { own.scaled(protection.get(), usage.get()) }
}

fn effective_protection(
    usage: Bytes,
    parent_usage: Bytes,
    setting: Bytes,
    parent_effective: Bytes,
    siblings_claimed: Bytes,
    recursive: bool,
) -> Bytes {
    let claimed = usage.min(setting);
    if siblings_claimed > parent_effective {
        return claimed.scaled(parent_effective.get(), siblings_claimed.get());
    }
    if recursive && parent_effective > siblings_claimed && parent_usage > siblings_claimed && usage > claimed
    {
        let unclaimed = parent_effective.saturating_sub(siblings_claimed);
        let over = usage.saturating_sub(claimed).get();
        return claimed
            .saturating_add(unclaimed.scaled(over, parent_usage.saturating_sub(siblings_claimed).get()));
    }
    claimed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mib(n: u64) -> Bytes {
        Bytes::from_mib(n)
    }

    /// A leaf whose memory is all page cache.
    fn leaf(usage: u64, min: u64, low: u64) -> Node {
        Node { usage: mib(usage), min: mib(min), low: mib(low), takeable: mib(usage), children: vec![] }
    }

    fn parent(min: u64, low: u64, children: Vec<Node>) -> Node {
        let usage = children.iter().map(|child| child.usage).sum();
        let takeable = children.iter().map(|child| child.takeable).sum();
        Node { usage, takeable, min: mib(min), low: mib(low), children }
    }

    #[test]
    fn the_targets_own_protection_does_not_count() {
        assert_eq!(protection(&leaf(100, 100, 100), true), Protection::default());
    }

    #[test]
    fn a_childs_does_up_to_its_usage() {
        let target = parent(0, 0, vec![leaf(100, 30, 0), leaf(50, 500, 0), leaf(10, 0, 4)]);
        assert_eq!(protection(&target, false), Protection { min: mib(80), low: mib(4) });
    }

    #[test]
    fn low_is_counted_beyond_min() {
        let target = parent(0, 0, vec![leaf(100, 30, 50)]);
        assert_eq!(protection(&target, false), Protection { min: mib(30), low: mib(20) });
    }

    #[test]
    fn grandchildren_share_what_their_parent_has() {
        let middle = parent(60, 0, vec![leaf(100, 80, 0), leaf(100, 40, 0)]);
        let kept = protection(&parent(0, 0, vec![middle]), false);
        assert_eq!(kept.min, mib(60));
    }

    #[test]
    fn unclaimed_protection_reaches_grandchildren_only_with_recursiveprot() {
        let middle = parent(60, 0, vec![leaf(100, 0, 0), leaf(100, 0, 0)]);
        let target = parent(0, 0, vec![middle]);
        assert_eq!(protection(&target, false), Protection::default());
        assert_eq!(protection(&target, true).min, mib(60));
    }

    #[test]
    fn what_reclaim_could_not_take_anyway_is_not_counted_again() {
        let mut anon = leaf(100, 100, 0);
        anon.takeable = mib(10);
        assert_eq!(protection(&parent(0, 0, vec![anon]), true).min, mib(10));
    }

    fn tree() -> impl Strategy<Value = Node> {
        let figures = || (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
        let node = |(usage, min, low, takeable): (u64, u64, u64, u64), children| {
            let (min, low) = (Bytes::new(min), Bytes::new(low));
            Node { usage: Bytes::new(usage), min, low, takeable: Bytes::new(takeable), children }
        };
        let leaf = figures().prop_map(move |f| node(f, vec![]));
        leaf.prop_recursive(4, 32, 4, move |inner| {
            (figures(), proptest::collection::vec(inner, 0..4))
                .prop_map(move |(f, children)| node(f, children))
        })
    }

    fn own_takeable(node: &Node) -> u128 {
        let below: Bytes = node.children.iter().map(|child| child.takeable).sum();
        let own = u128::from(node.takeable.saturating_sub(below).get());
        own + node.children.iter().map(own_takeable).sum::<u128>()
    }

    proptest! {
        #[test]
        fn never_more_is_kept_than_could_be_taken(target in tree(), recursive: bool) {
            let kept = protection(&target, recursive);
            let takeable: u128 = target.children.iter().map(own_takeable).sum();
            let sum = u128::from(kept.min.get()) + u128::from(kept.low.get());
            prop_assert!(sum <= takeable, "{sum} > {takeable}");
        }
    }
}
