//! What leases let through, and for how long.

use super::{Armed, BUSY, NEAR, Tenant, enforce, id, opened, wide, write};
use enforcer::cgroup::Sampler;
use enforcer::guard::{Found, GuardMode, Reason, Source, Terms, Verdict, grant_everywhere};
use enforcer::observe::observe;
use enforcer::probe::LimitKind;
use enforcer_gate::{Bytes, Micros, Policy};

/// Down to so many MiB, for so long.
fn terms(minimum: u64, seconds: u64) -> Terms {
    Terms {
        minimum: Bytes::from_mib(minimum),
        growth_per_second: Bytes::ZERO,
        lifetime: Micros::from_secs(seconds),
    }
}

pub(super) fn in_force() {
    let tenant = Tenant::new("leases");
    let cgroup = &tenant.cgroup;
    let mut armed = Armed::new();
    armed.cover_with(cgroup, enforce);
    let max = LimitKind::MemoryMax;
    armed.guard.grant(id(cgroup), max, terms(32, 600)).expect("a lease");
    assert_eq!(write(cgroup, "memory.max", b"31M"), BUSY);
    let judged = armed.one("under the lease");
    assert_eq!((judged.reason, judged.lease), (Reason::UnderLease, Some(Bytes::from_mib(32))));
    assert_eq!(write(cgroup, "memory.max", NEAR), Ok(()));
    let judged = armed.one("with a lease");
    assert_eq!((judged.verdict, judged.reason), (Verdict::Allowed, Reason::Leased));
    cgroup.write("memory.max", "64M");
    armed.guard.grant(id(cgroup), LimitKind::MemoryHigh, terms(16, 600)).expect("a lease");
    armed.guard.grant(id(cgroup), max, terms(32, 0)).expect("a lease");
    assert_eq!(write(cgroup, "memory.max", NEAR), BUSY, "void, and another file's does not count");
    assert_eq!(armed.one("a void lease").reason, Reason::LeaseExpired);
    armed.guard.revoke(id(cgroup), max);
    assert_eq!(write(cgroup, "memory.max", NEAR), BUSY);
    assert_eq!(armed.one("no lease").reason, Reason::NoLease);
    // Grows by 4 GiB a second: over any target before the write is made.
    let growing = Terms { growth_per_second: Bytes::from_mib(1 << 20), ..terms(16, 600) };
    armed.guard.grant(id(cgroup), max, growing).expect("a lease");
    assert_eq!(write(cgroup, "memory.max", NEAR), BUSY);
    let judged = armed.one("a lease that ages");
    assert_eq!(judged.reason, Reason::UnderLease);
    assert!(judged.lease > Some(Bytes::from_mib(32)), "{judged:?}");
}

/// What can't be read goes through where usage is not above what a lease allows: what it was given for fits.
pub(super) fn unavailable() {
    let tenant = Tenant::new("unknown");
    let cgroup = &tenant.cgroup;
    let mut armed = Armed::over(cgroup, GuardMode::Enforce);
    let long = [vec![b' '; 200], b"48M".to_vec()].concat();
    armed.guard.grant(id(cgroup), LimitKind::MemoryMax, terms(16, 600)).expect("a lease");
    assert_eq!(write(cgroup, "memory.max", &long), BUSY);
    armed.guard.grant(id(cgroup), LimitKind::MemoryMax, terms(40, 600)).expect("a lease");
    assert_eq!(write(cgroup, "memory.max", &long), Ok(()));
    let told: Vec<_> =
        armed.told().iter().map(|judged| (judged.verdict, judged.reason, judged.source)).collect();
    let source = Source::TooLong;
    assert_eq!(
        told,
        [
            (Verdict::Denied, Reason::Unavailable, source),
            (Verdict::Allowed, Reason::UnavailableLeased, source)
        ]
    );
}

/// A lease from what the gate saw: the safe minimum goes through, a page less does not.
pub(super) fn evidence() {
    let tenant = Tenant::new("evidence");
    let cgroup = &tenant.cgroup;
    let mut armed = Armed::new();
    armed.cover_with(cgroup, |cover| {
        cover.mode = GuardMode::Enforce;
        cover.margin = Bytes::from_mib(1024);
    });
    let mut sampler = Sampler::new(&opened(cgroup)).expect("a sampler");
    let policy = Policy { observe_window: Micros::from_millis(500), ..Policy::default() };
    let evidence = observe(&mut sampler, Bytes::from_mib(48), policy).expect("evidence");
    let terms = Terms::from_evidence(&evidence, Micros::from_secs(600)).expect("a floor");
    let terms = Terms { growth_per_second: Bytes::ZERO, ..terms };
    assert!(terms.minimum > Bytes::from_mib(24) && terms.minimum < Bytes::from_mib(40), "{terms:?}");
    armed.guard.grant(id(cgroup), LimitKind::MemoryMax, terms).expect("a lease");
    let minimum = terms.minimum.page_ceil().get();
    assert_eq!(write(cgroup, "memory.max", (minimum - 4096).to_string().as_bytes()), BUSY);
    assert_eq!(write(cgroup, "memory.max", minimum.to_string().as_bytes()), Ok(()));
    assert_eq!((cgroup.limit("memory.max"), cgroup.kills()), (minimum.to_string(), 0));
}

/// Of two guards one that refuses is enough; a shrink of ours tells both.
pub(super) fn two_guards() {
    let tenant = Tenant::new("two");
    let cgroup = &tenant.cgroup;
    let mut one = Armed::new();
    let mut two = Armed::new();
    one.cover_with(cgroup, wide);
    two.cover_with(cgroup, enforce);
    assert_eq!(Found::all().expect("list them").len(), 2);
    assert_eq!(write(cgroup, "memory.max", NEAR), BUSY);
    // The kernel asks no further once one has refused, so the other need not have been asked.
    assert!(one.told().iter().all(|judged| judged.verdict == Verdict::WouldDeny));
    assert_eq!(two.one("the one that refuses").verdict, Verdict::Denied);
    let granted = grant_everywhere(id(cgroup), LimitKind::MemoryMax, terms(32, 600)).expect("both are told");
    assert!(
        Found::all().expect("list them").iter().all(|found| found.leases().is_ok_and(|held| held.len() == 1))
    );
    assert_eq!(write(cgroup, "memory.max", NEAR), Ok(()));
    assert_eq!([one.one("leased").reason, two.one("leased").reason], [Reason::Leased; 2]);
    drop(granted);
    cgroup.write("memory.max", "64M");
    assert_eq!(write(cgroup, "memory.max", NEAR), BUSY, "the lease is over");
}
