//! A limit that somebody else was told to lower as well, and that of the cgroup above, which they lower next.

use super::{DEADLINE, MIB, Rig, limit, mib};
use crate::process::Other;
use enforcer::{
    actuate::{Foretold, Session, SessionOptions, recover},
    cgroup::Cgroup,
};
use enforcer_gate::{LimitFile, OutcomeKind};
use enforcer_vm_tests::case::{Case, Tier, nothing};
use std::{fs, path::PathBuf};

pub(super) fn cases() -> Vec<Case> {
    let case = |name, run| Case { name, tier: Tier::Full, needs: nothing, run };
    vec![
        case("actuate::what_was_foretold_goes_back_with_the_limit_above", goes_back as fn()),
        case("actuate::what_was_foretold_stays_when_it_is_kept", stays),
        case("actuate::what_was_not_foretold_is_somebody_elses", is_not_ours),
    ]
}

/// A pod of 256 MiB with one container of as much, which another is told to have at 100 MiB.
struct Pod {
    rig: Rig,
    app: PathBuf,
}

impl Pod {
    fn new() -> Self {
        let rig = Rig::new();
        let app = rig.below("app");
        fs::write(app.join("memory.max"), "256M").unwrap();
        Self { rig, app }
    }

    fn begin(&self) -> Session {
        let foretold = Some(Foretold { max: mib(100), above: Some(self.rig.cgroup()) });
        let options = SessionOptions { foretold, ..SessionOptions::default() };
        Session::begin(&Cgroup::open(&self.app).unwrap(), &self.rig.state, &options).unwrap()
    }

    /// As a kubelet does: the container first.
    fn another_writes(&self, text: &str) {
        fs::write(self.app.join("memory.max"), text).unwrap();
        self.rig.group.write("memory.max", text);
    }

    /// `memory.max` of the pod and the container.
    fn limits(&self) -> (u64, u64) {
        let app = fs::read_to_string(self.app.join("memory.max")).unwrap();
        (self.rig.number("memory.max"), app.trim_end().parse().unwrap())
    }
}

const FOUND: (u64, u64) = (256 * MIB, 256 * MIB);
const LOWER: (u64, u64) = (100 * MIB, 100 * MIB);

fn goes_back() {
    type Way = fn(Session);
    let ways: [(&str, Way); 3] = [
        ("asked", |session| {
            let restored = session.restore_handle().restore(None, Some(limit(256)));
            assert_eq!(restored, OutcomeKind::Done);
            session.finish(false).unwrap();
        }),
        ("at the end", |session| drop(session.finish(false).unwrap())),
        // By the restorer, as after a crash.
        ("dropped", drop),
    ];
    for (name, way) in ways {
        for by_us in [false, true] {
            let pod = Pod::new();
            let mut session = pod.begin();
            let restorer = Other::new(session.restorer_pid());
            if by_us {
                assert_eq!(session.commit(mib(100), mib(95), DEADLINE), OutcomeKind::Done);
            }
            pod.another_writes("100M");
            // What is in force already is not written again.
            assert_eq!(session.commit(mib(100), mib(95), DEADLINE), OutcomeKind::Done, "{name}");
            assert_eq!(pod.limits(), LOWER);
            assert_eq!(session.found(LimitFile::Max), limit(256));
            way(session);
            restorer.wait();
            assert_eq!(pod.limits(), FOUND, "{name}, written by us as well: {by_us}");
            assert_eq!(recover(&pod.rig.state), []);
        }
    }
}

fn stays() {
    let pod = Pod::new();
    let session = pod.begin();
    pod.another_writes("100M");
    session.finish(true).unwrap();
    assert_eq!(pod.limits(), LOWER);
    assert_eq!(recover(&pod.rig.state), []);
}

fn is_not_ours() {
    let pod = Pod::new();
    let session = pod.begin();
    pod.another_writes("101M");
    drop(session);
    assert_eq!(pod.limits(), (101 * MIB, 101 * MIB));
    assert_eq!(recover(&pod.rig.state), []);
}
