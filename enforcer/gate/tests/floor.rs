//! The floor against a reference model: memory as a list of pages of known kind, where what reclaim can
//! take is counted page by page.

use enforcer_gate::{
    Bytes, Floor, Limit, MemoryEvents, MemoryStat, PAGE_SIZE, Policy, Protection, Sample, SwapRoom,
};
use proptest::prelude::*;

const MIB_PAGES: u64 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Anon,
    Shmem,
    Cache,
    SlabReclaimable,
    KernelOther,
    Sock,
    Hugetlb,
    /// Charged, and in no counter.
    Nameless,
}

/// A number of pages that are alike.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent attributes of a page")]
struct Group {
    kind: Kind,
    pages: u64,
    locked: bool,
    dirty: bool,
    mapped: bool,
    protected: bool,
    active: bool,
}

impl Group {
    const fn of(kind: Kind, pages: u64) -> Self {
        Self { kind, pages, locked: false, dirty: false, mapped: false, protected: false, active: false }
    }

    const fn user(&self) -> bool {
        matches!(self.kind, Kind::Anon | Kind::Shmem | Kind::Cache)
    }

    /// Whether reclaim, had it a place to put it, could take this.
    const fn takeable(&self, swap: bool) -> bool {
        !self.locked
            && match self.kind {
                Kind::Cache => true,
                Kind::Anon | Kind::Shmem => swap,
                Kind::SlabReclaimable | Kind::KernelOther | Kind::Sock | Kind::Hugetlb | Kind::Nameless => {
                    false
                }
            }
    }
}

fn policy() -> Policy {
    Policy { slab_permille: 500, ..Policy::default() }
}

fn pages(n: u64) -> Bytes {
    Bytes::new(n * PAGE_SIZE)
}

/// What the kernel's files would say of these pages.
fn sample_of(groups: &[Group], swap_free: u64) -> Sample {
    let sum = |pick: &dyn Fn(&Group) -> bool| pages(groups.iter().filter(|g| pick(g)).map(|g| g.pages).sum());
    let on_list = |g: &Group| g.user() && !g.locked;
    let swap_backed = |g: &Group| matches!(g.kind, Kind::Anon | Kind::Shmem);
    Sample {
        current: sum(&|_| true),
        max: Limit::Max,
        high: Limit::Max,
        stat: MemoryStat {
            anon: sum(&|g| g.kind == Kind::Anon),
            file: sum(&|g| matches!(g.kind, Kind::Cache | Kind::Shmem)),
            shmem: sum(&|g| g.kind == Kind::Shmem),
            kernel: sum(&|g| matches!(g.kind, Kind::SlabReclaimable | Kind::KernelOther)),
            slab_reclaimable: sum(&|g| g.kind == Kind::SlabReclaimable),
            sock: sum(&|g| g.kind == Kind::Sock),
            file_mapped: sum(&|g| g.mapped && matches!(g.kind, Kind::Cache | Kind::Shmem)),
            file_dirty: sum(&|g| g.dirty && g.kind == Kind::Cache),
            inactive_anon: sum(&|g| on_list(g) && swap_backed(g) && !g.active),
            active_anon: sum(&|g| on_list(g) && swap_backed(g) && g.active),
            inactive_file: sum(&|g| on_list(g) && g.kind == Kind::Cache && !g.active),
            active_file: sum(&|g| on_list(g) && g.kind == Kind::Cache && g.active),
            unevictable: sum(&|g| g.user() && g.locked),
            ..MemoryStat::default()
        },
        events_local: MemoryEvents::default(),
        events: MemoryEvents::default(),
        pressure: None,
        protection: Protection { min: sum(&|g| g.protected && g.takeable(swap_free > 0)), low: Bytes::ZERO },
        swap: SwapRoom { free: pages(swap_free), zswap: false },
        hugetlb: sum(&|g| g.kind == Kind::Hugetlb),
        populated: true,
        frozen: false,
        frozen_below: None,
        ancestors: vec![],
    }
}

/// The reference: what stays, counted group by group, in pages.
#[derive(Debug)]
struct Reference {
    stays: u64,
    /// The working set, where only what is really mapped page cache and not kept anyway counts...
    working_set_min: u64,
    /// ...and the most that the counters allow: `file_mapped` has mapped tmpfs and protected cache too.
    working_set_max: u64,
}

fn reference(groups: &[Group], swap_free: u64) -> Reference {
    let mut stays = 0;
    let mut swap_left = swap_free;
    let (mut clean, mut clean_mapped, mut clean_protected, mut mapped) = (0, 0, 0, 0);
    for group in groups {
        let keeps = group.locked || group.protected;
        match group.kind {
            Kind::Anon | Kind::Shmem => {
                let swapped = if keeps { 0 } else { group.pages.min(swap_left) };
                swap_left -= swapped;
                stays += group.pages - swapped;
            }
            Kind::Cache if keeps || group.dirty => stays += group.pages,
            Kind::Cache => clean += group.pages,
            Kind::SlabReclaimable => stays += group.pages - group.pages / 2,
            Kind::KernelOther | Kind::Sock | Kind::Hugetlb | Kind::Nameless => stays += group.pages,
        }
        let cache = group.kind == Kind::Cache;
        if cache && group.protected && !group.locked && !group.dirty {
            clean_protected += group.pages;
        }
        if cache && group.mapped && !keeps && !group.dirty {
            clean_mapped += group.pages;
        }
        if group.mapped && (cache || group.kind == Kind::Shmem) {
            mapped += group.pages;
        }
    }
    let usage: u64 = groups.iter().map(|g| g.pages).sum();
    let share = (usage / 32).max(MIB_PAGES);
    Reference {
        stays,
        working_set_min: clean_mapped.min(share),
        working_set_max: mapped.min(share).min(clean + clean_protected),
    }
}

fn group() -> impl Strategy<Value = Group> {
    let kind = prop_oneof![
        Just(Kind::Anon),
        Just(Kind::Shmem),
        Just(Kind::Cache),
        Just(Kind::Cache),
        Just(Kind::SlabReclaimable),
        Just(Kind::KernelOther),
        Just(Kind::Sock),
        Just(Kind::Hugetlb),
        Just(Kind::Nameless),
    ];
    let attribute = || prop::bool::weighted(0.3);
    // Even, so that half of the slab is a whole page in both.
    (kind, 0_u64..20_000, attribute(), attribute(), attribute(), attribute(), attribute()).prop_map(
        |(kind, half, locked, dirty, mapped, protected, active)| {
            let group = Group { kind, pages: half * 2, locked, dirty, mapped, protected, active };
            let user = group.user();
            Group {
                locked: user && locked,
                protected: user && protected,
                dirty: dirty && kind == Kind::Cache,
                ..group
            }
        },
    )
}

fn groups() -> impl Strategy<Value = Vec<Group>> {
    prop::collection::vec(group(), 0..12)
}

/// Pages whose attributes overlap in a way that no counter shows: dirty and locked, dirty and protected.
fn overlap(groups: &[Group]) -> u64 {
    groups.iter().filter(|g| g.dirty && (g.locked || g.protected)).map(|g| g.pages).sum()
}

/// Protected anonymous memory while swap has room for some, but not for all: which part of what is
/// protected swap would have taken is not to be seen.
fn swap_is_partial(groups: &[Group], swap_free: u64) -> bool {
    let swap_backed = |g: &&Group| matches!(g.kind, Kind::Anon | Kind::Shmem) && !g.locked;
    let evictable: u64 = groups.iter().filter(swap_backed).map(|g| g.pages).sum();
    swap_free > 0 && swap_free < evictable
}

fn swap() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0_u64), 0_u64..100_000, Just(u64::MAX / PAGE_SIZE)]
}

/// One page for each rounding: the working set's share of usage is not a whole page.
const ROUNDING: u64 = PAGE_SIZE;

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    /// Never under what really stays.
    #[test]
    fn floor_is_never_under_the_reference(groups in groups(), swap_free in swap()) {
        let floor = Floor::of(&sample_of(&groups, swap_free), &policy());
        let reference = reference(&groups, swap_free);
        let expect = (reference.stays + reference.working_set_min) * PAGE_SIZE;
        prop_assert!(floor.bytes.get() + ROUNDING >= expect, "{floor:#?} reference {expect}");
        prop_assert!(floor.adds_up());
    }

    /// Nothing is counted twice: over the reference by no more than the counters leave open.
    #[test]
    fn floor_counts_nothing_twice(groups in groups(), swap_free in swap()) {
        prop_assume!(!swap_is_partial(&groups, swap_free));
        let floor = Floor::of(&sample_of(&groups, swap_free), &policy());
        let reference = reference(&groups, swap_free);
        let expect = (reference.stays + reference.working_set_max + overlap(&groups)) * PAGE_SIZE;
        prop_assert!(floor.bytes.get() <= expect + ROUNDING, "{floor:#?} reference {expect}");
    }

    /// Clean page cache that nothing maps is not in the floor, however large.
    #[test]
    fn clean_cache_is_not_in_the_floor(groups in groups(), more in 0_u64..10_000_000) {
        let plain = |g: Group| Group { mapped: false, protected: false, locked: g.locked && !g.dirty, ..g };
        let unmapped: Vec<Group> = groups.into_iter().map(plain).collect();
        let before = Floor::of(&sample_of(&unmapped, 0), &policy());
        let mut grown = unmapped;
        grown.push(Group::of(Kind::Cache, more));
        let after = Floor::of(&sample_of(&grown, 0), &policy());
        prop_assert_eq!(before.bytes, after.bytes);
    }

    /// More memory that stays is never a lower floor.
    #[test]
    fn floor_rises_with_what_stays(groups in groups(), more in 1_u64..1_000_000, which in 0_usize..4) {
        let kind = [Kind::Anon, Kind::Shmem, Kind::KernelOther, Kind::Nameless][which];
        let before = Floor::of(&sample_of(&groups, 0), &policy());
        let mut grown = groups;
        grown.push(Group::of(kind, more));
        let after = Floor::of(&sample_of(&grown, 0), &policy());
        prop_assert!(after.bytes.get() >= before.bytes.get() + more * PAGE_SIZE);
    }

    /// Any counters at all, also ones that contradict each other: no wrap, no panic, not over usage.
    #[test]
    fn any_counters_give_a_floor_within_usage(raw in prop::collection::vec(extreme(), 28), zswap in any::<bool>()) {
        let mut next = raw.iter().copied().map(Bytes::new);
        let mut take = || next.next().unwrap_or_default();
        let mut sample = sample_of(&[], 0);
        sample.current = take();
        sample.hugetlb = take();
        sample.swap = SwapRoom { free: take(), zswap };
        sample.protection = Protection { min: take(), low: take() };
        sample.stat = MemoryStat {
            anon: take(), file: take(), kernel: take(), sock: take(), shmem: take(), zswap: take(),
            zswapped: take(), file_mapped: take(), file_dirty: take(), file_writeback: take(),
            swapcached: take(), inactive_anon: take(), active_anon: take(), inactive_file: take(),
            active_file: take(), unevictable: take(), slab_reclaimable: take(), slab_unreclaimable: take(),
            ..MemoryStat::default()
        };
        let floor = Floor::with_refaults(&sample, &policy(), take());
        prop_assert!(floor.bytes <= sample.current);
        prop_assert!(floor.adds_up());
    }
}

fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1), any::<u64>(), 0..(1_u64 << 40)]
}

fn check(groups: &[Group], swap_free: u64, expect: &[(&str, u64)]) {
    let floor = Floor::of(&sample_of(groups, swap_free), &policy());
    let named: Vec<(&str, u64)> = floor
        .terms
        .list()
        .iter()
        .filter(|term| term.bytes > Bytes::ZERO)
        .map(|term| (term.name, term.bytes.get() / PAGE_SIZE))
        .collect();
    assert_eq!(named, expect, "{floor:#?}");
    let sum: u64 = expect.iter().map(|(_, pages)| pages).sum();
    // What is not known to stay is known to go; the working set is in both.
    let working_set = floor.terms.working_set;
    let goes = floor.usage.saturating_sub(floor.bytes).saturating_add(working_set);
    assert_eq!(floor.reclaimable, goes);
    assert_eq!(floor.bytes, pages(sum));
}

#[test]
fn terms_name_what_stays() {
    use Kind::{Anon, Cache, Hugetlb, KernelOther, Nameless, Shmem, SlabReclaimable, Sock};
    let locked = |kind, n| Group { locked: true, ..Group::of(kind, n) };
    let dirty = |n| Group { dirty: true, ..Group::of(Cache, n) };
    let protected = |kind, n| Group { protected: true, ..Group::of(kind, n) };
    let mapped = |kind, n| Group { mapped: true, ..Group::of(kind, n) };

    check(&[Group::of(Anon, 100), Group::of(Cache, 900)], 0, &[("anon", 100)]);
    check(&[Group::of(Anon, 100)], 40, &[("anon", 60)]);
    check(&[Group::of(Anon, 100), Group::of(Shmem, 50)], 120, &[("shmem", 30)]);
    check(&[Group::of(Shmem, 120)], 0, &[("shmem", 120)]);
    // Locked memory is named, and in no other term; swap does not take it.
    check(&[locked(Anon, 120), Group::of(Anon, 10)], 0, &[("anon", 10), ("unevictable", 120)]);
    check(&[locked(Anon, 120)], 1000, &[("unevictable", 120)]);
    check(&[locked(Cache, 30), Group::of(Cache, 30)], 0, &[("unevictable", 30)]);
    check(&[locked(Shmem, 30), Group::of(Anon, 5)], 0, &[("shmem", 5), ("unevictable", 30)]);
    check(&[Group::of(KernelOther, 10), Group::of(SlabReclaimable, 8)], 0, &[("kernel", 10), ("slab", 4)]);
    check(&[Group::of(Sock, 3), Group::of(Hugetlb, 512)], 0, &[("sock", 3), ("hugetlb", 512)]);
    check(&[dirty(20), Group::of(Cache, 20)], 0, &[("dirty", 20)]);
    check(&[protected(Cache, 20), Group::of(Cache, 20)], 0, &[("protected", 20)]);
    check(&[protected(Anon, 20), Group::of(Anon, 20)], 1000, &[("protected", 20)]);
    check(&[protected(Anon, 20)], 0, &[("anon", 20)]);
    check(&[mapped(Cache, 100)], 0, &[("working_set", 100)]);
    check(&[mapped(Cache, 10_240)], 0, &[("working_set", 320)]);
    check(&[Group::of(Nameless, 7), Group::of(Cache, 7)], 0, &[("unattributed", 7)]);
}

#[test]
fn zswap_keeps_its_copies_charged() {
    let mut sample = sample_of(&[Group::of(Kind::Anon, 1000)], 1000);
    sample.swap.zswap = true;
    // Nothing known: a quarter is counted on.
    assert_eq!(Floor::of(&sample, &policy()).bytes, pages(750));
    // The cgroup's own ratio, and an eighth: 1/4 * 9/8.
    sample.stat.zswapped = Bytes::from_mib(40);
    sample.stat.zswap = Bytes::from_mib(10);
    sample.stat.kernel = Bytes::from_mib(10);
    sample.current = sample.current.saturating_add(Bytes::from_mib(10));
    let floor = Floor::of(&sample, &policy());
    assert_eq!(floor.terms.anon, Bytes::new(1000 * PAGE_SIZE * 9 / 32));
    assert_eq!(floor.terms.kernel, Bytes::from_mib(10));
    // Memory that does not compress frees nothing, and never adds.
    sample.stat.zswap = Bytes::from_mib(80);
    assert_eq!(Floor::of(&sample, &policy()).terms.anon, pages(1000));
}

#[test]
fn refaults_raise_the_working_set_up_to_what_is_mapped() {
    let groups = [Group { mapped: true, ..Group::of(Kind::Cache, 10_000) }, Group::of(Kind::Cache, 10_000)];
    let sample = sample_of(&groups, 0);
    let of = |refaulted| Floor::with_refaults(&sample, &policy(), pages(refaulted)).terms.working_set;
    assert_eq!(of(0), pages(20_000 / 32));
    assert_eq!(of(1_000), pages(20_000 / 32 + 1_000));
    assert_eq!(of(1_000_000), pages(10_000));
}

#[test]
fn lazily_freed_memory_is_not_in_both_views() {
    // MADV_FREE: counted as anon, on the file lists. The sum view keeps it; it stays within usage.
    let mut sample = sample_of(&[Group::of(Kind::Anon, 100), Group::of(Kind::Cache, 50)], 0);
    sample.stat.inactive_anon = pages(40);
    sample.stat.inactive_file = pages(110);
    let floor = Floor::of(&sample, &policy());
    assert_eq!(floor.bytes, pages(100));
}
