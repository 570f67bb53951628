//! From readings to what a pod costs. No I/O; nothing wraps, and what would is flagged.

use super::model::{Flag, Helper, HelperMemory, PodSample, Term, Vm};
use enforcer_gate::{Bytes, MemoryStat};
use std::collections::BTreeMap;

/// What a cgroup says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// `memory.current`
    pub current: Bytes,
    /// `memory.stat`
    pub stat: MemoryStat,
}

impl Usage {
    /// Both are read one after the other, so a part may be more than the whole.
    fn part(&self, term: Term) -> Bytes {
        let stat = &self.stat;
        match term {
            Term::PodAnon => stat.anon,
            Term::PodShmem => stat.shmem,
            // `kernel` holds stacks, page tables, per-CPU memory and both kinds of slab.
            Term::PodKernel => stat.kernel.saturating_sub(stat.slab_reclaimable),
            Term::PodSock => stat.sock,
            // `file` holds shmem as well.
            Term::PodFile => stat.file.saturating_sub(stat.shmem),
            Term::PodSlab => stat.slab_reclaimable,
            Term::PodOther => {
                let told = stat.anon.saturating_add(stat.file).saturating_add(stat.kernel);
                self.current.saturating_sub(told.saturating_add(stat.sock))
            }
            Term::HelperAnon
            | Term::HelperShmem
            | Term::HelperFile
            | Term::HelperPageTables
            | Term::HelperStacks => Bytes::ZERO,
        }
    }

    /// What of it can't be reclaimed.
    pub fn kept(&self) -> Bytes {
        let kept = [Term::PodAnon, Term::PodShmem, Term::PodKernel, Term::PodSock];
        kept.iter().map(|term| self.part(*term)).sum()
    }
}

/// What was read of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readings {
    /// The pod's cgroup.
    pub pod: Usage,
    /// Its app containers'.
    pub apps: Vec<Usage>,
    /// What dead containers left in the pod's cgroup, by term.
    pub residue: BTreeMap<Term, Bytes>,
    /// `memory.peak` of the pod's cgroup.
    pub peak: Option<Bytes>,
    /// Its virtual machine.
    pub vm: Option<Vm>,
    /// Its helpers, with their memory.
    pub helpers: Vec<Helper>,
    /// What went wrong while they were read.
    pub flags: Vec<Flag>,
}

/// The terms in the pod's cgroup: what it has less what its app containers have.
const IN_POD: [Term; 7] = [
    Term::PodAnon,
    Term::PodShmem,
    Term::PodKernel,
    Term::PodSock,
    Term::PodFile,
    Term::PodSlab,
    Term::PodOther,
];

/// Terms that stay charged when a cgroup is removed, and that nothing but a container is charged for in a pod: page cache and
/// tmpfs live on until they are reclaimed. The kernel's own memory there is of the pod's cgroups, and stays in its term.
const LEFT: [Term; 4] = [Term::PodAnon, Term::PodShmem, Term::PodFile, Term::PodSlab];

/// What a pod's cgroup has that none of the cgroups that live in it has, for those terms that only the dead can have left.
pub fn residue(pod: &Usage, live: &[Usage]) -> BTreeMap<Term, Bytes> {
    let of = |term: Term| {
        let live: Bytes = live.iter().map(|one| one.part(term)).sum();
        (term, pod.part(term).saturating_sub(live))
    };
    LEFT.map(of).into()
}

/// What the pod costs.
pub fn account(step: usize, sandbox: &str, readings: Readings) -> PodSample {
    let Readings { pod, apps, residue, peak, vm, helpers, mut flags } = readings;
    let mut terms = BTreeMap::new();
    for term in IN_POD {
        let apps: Bytes = apps.iter().map(|app| app.part(term)).sum();
        let whole = pod.part(term);
        if apps > whole {
            flags.push(Flag::Clamped { term, by: apps.saturating_sub(whole) });
        }
        let left = residue.get(&term).copied().unwrap_or_default();
        terms.insert(term, whole.saturating_sub(apps).saturating_sub(left));
    }
    let outside = helpers.iter().filter(|helper| !helper.in_pod).map(|helper| helper.memory);
    let outside = outside.fold(HelperMemory::default(), HelperMemory::plus);
    for (term, bytes) in [
        (Term::HelperAnon, outside.anon),
        (Term::HelperShmem, outside.shmem),
        (Term::HelperFile, outside.file),
        (Term::HelperPageTables, outside.page_tables),
        (Term::HelperStacks, outside.stacks),
    ] {
        terms.insert(term, bytes);
    }
    if helpers.is_empty() {
        flags.push(Flag::NoHelper);
    }
    PodSample {
        step,
        sandbox: sandbox.into(),
        terms,
        cpu: None,
        app: apps.iter().map(|app| app.current).sum(),
        app_kept: apps.iter().map(Usage::kept).sum(),
        residue: residue.values().copied().sum(),
        peak,
        vm,
        helpers,
        flags,
    }
}

impl HelperMemory {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            anon: self.anon.saturating_add(other.anon),
            file: self.file.saturating_add(other.file),
            shmem: self.shmem.saturating_add(other.shmem),
            page_tables: self.page_tables.saturating_add(other.page_tables),
            stacks: self.stacks.saturating_add(other.stacks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::helpers::Rule;
    use proptest::prelude::*;

    fn usage(current: u64, anon: u64, file: u64, kernel: u64, slab: u64) -> Usage {
        let stat = MemoryStat {
            anon: Bytes::new(anon),
            file: Bytes::new(file),
            kernel: Bytes::new(kernel),
            slab_reclaimable: Bytes::new(slab),
            ..MemoryStat::default()
        };
        Usage { current: Bytes::new(current), stat }
    }

    fn helper(in_pod: bool, anon: u64) -> Helper {
        Helper {
            pid: 1,
            program: String::new(),
            rule: Rule::ContainerdShim,
            cgroup: String::new(),
            in_pod,
            memory: HelperMemory { anon: Bytes::new(anon), file: Bytes::new(7), ..HelperMemory::default() },
        }
    }

    #[test]
    fn the_pod_less_its_containers_and_helpers_outside_once() {
        let readings = Readings {
            pod: usage(1000, 300, 200, 400, 100),
            apps: vec![usage(250, 100, 100, 40, 10), usage(100, 50, 0, 40, 0)],
            helpers: vec![helper(false, 5000), helper(false, 60), helper(true, 1 << 40)],
            ..Readings::default()
        };
        let sample = account(3, "s", readings);
        let expected = [
            (Term::PodAnon, 150),
            (Term::PodShmem, 0),
            (Term::PodKernel, 300 - 30 - 40),
            (Term::PodSock, 0),
            (Term::PodFile, 100),
            (Term::PodSlab, 90),
            (Term::PodOther, 100 - 10 - 10),
            (Term::HelperAnon, 5060),
            (Term::HelperShmem, 0),
            (Term::HelperFile, 14),
            (Term::HelperPageTables, 0),
            (Term::HelperStacks, 0),
        ];
        assert_eq!(sample.terms, expected.map(|(term, bytes)| (term, Bytes::new(bytes))).into());
        assert_eq!((sample.app.get(), sample.app_kept.get()), (350, 100 + 30 + 50 + 40));
        assert_eq!(sample.kept().get(), 150 + 230 + 5060);
        assert_eq!(sample.flags, []);
    }

    #[test]
    fn what_the_dead_left_is_told_apart() {
        // A pause of 10, a container of 50, and 140 of page cache and 60 of shmem that nobody alive has.
        let (pod, pause, app) =
            (usage(400, 60, 240, 90, 0), usage(20, 10, 0, 10, 0), usage(110, 50, 40, 20, 0));
        let shmem = |mut usage: Usage, shmem| {
            usage.stat.shmem = Bytes::new(shmem);
            usage
        };
        let pod = shmem(pod, 60);
        let left = residue(&pod, &[pause, app]);
        let expected = [(Term::PodAnon, 0), (Term::PodShmem, 60), (Term::PodFile, 140), (Term::PodSlab, 0)];
        assert_eq!(left, expected.map(|(term, bytes)| (term, Bytes::new(bytes))).into());
        let readings = Readings { pod, apps: vec![app], residue: left, ..Readings::default() };
        let sample = account(0, "s", readings);
        assert_eq!(sample.residue.get(), 200);
        let of = |term| sample.terms[&term].get();
        assert_eq!([of(Term::PodAnon), of(Term::PodShmem), of(Term::PodFile)], [10, 0, 0]);
        assert_eq!(of(Term::PodKernel), 70, "the cgroups' own is no residue");
    }

    #[test]
    fn what_can_not_be_is_clamped_and_flagged() {
        let readings = Readings {
            pod: usage(100, 100, 0, 0, 0),
            apps: vec![usage(u64::MAX, u64::MAX, 0, 0, 0)],
            ..Readings::default()
        };
        let sample = account(0, "s", readings);
        assert_eq!(sample.total(), Bytes::ZERO);
        let clamped = Flag::Clamped { term: Term::PodAnon, by: Bytes::new(u64::MAX - 100) };
        assert_eq!(sample.flags, [clamped, Flag::NoHelper]);
    }

    proptest! {
        #[test]
        fn nothing_is_more_than_what_was_read(
            pod in proptest::array::uniform5(any::<u64>()),
            app in proptest::array::uniform5(any::<u64>()),
            anon in any::<u64>(),
        ) {
            let of = |[current, anon, file, kernel, slab]: [u64; 5]| usage(current, anon, file, kernel, slab);
            let readings = Readings {
                pod: of(pod), apps: vec![of(app)], helpers: vec![helper(false, anon)], ..Readings::default()
            };
            let sample = account(0, "s", readings);
            for term in IN_POD {
                prop_assert!(sample.terms[&term] <= of(pod).part(term));
                let clamped = sample.flags.iter().any(|flag| matches!(flag, Flag::Clamped { term: t, .. } if *t == term));
                prop_assert_eq!(clamped, of(app).part(term) > of(pod).part(term));
            }
            prop_assert_eq!(sample.terms[&Term::HelperAnon].get(), anon);
        }

        /// Whatever is read, also of the dead and of cgroups that are read one after the other.
        #[test]
        fn no_residue_makes_more_of_a_pod(
            pod in proptest::array::uniform5(any::<u64>()),
            live in proptest::collection::vec(proptest::array::uniform5(any::<u64>()), 0..4),
        ) {
            let of = |[current, anon, file, kernel, slab]: [u64; 5]| usage(current, anon, file, kernel, slab);
            let live: Vec<_> = live.into_iter().map(of).collect();
            let left = residue(&of(pod), &live);
            let apps: Vec<_> = live.first().copied().into_iter().collect();
            let without = account(0, "s", Readings { pod: of(pod), apps: apps.clone(), ..Readings::default() });
            let with = account(0, "s", Readings { pod: of(pod), apps, residue: left, ..Readings::default() });
            prop_assert!(with.total() <= without.total());
            for (term, bytes) in &with.terms {
                prop_assert!(*bytes <= without.terms[term]);
            }
        }

        #[test]
        fn consistent_readings_add_up(
            app in proptest::array::uniform3(0..1_u64 << 40),
            more in proptest::array::uniform4(0..1_u64 << 40),
        ) {
            // The pod has what its container has, and more: then nothing is clamped and the sum is exact.
            let [anon, file, kernel] = app;
            let whole = |[anon, file, kernel]: [u64; 3], other| {
                usage(anon + file + kernel + other, anon, file, kernel, kernel / 2)
            };
            let pod = whole([anon + more[0], file + more[1], kernel + 2 * more[2]], more[3]);
            let apps = vec![whole(app, 0)];
            let sample = account(0, "s", Readings { pod, apps, ..Readings::default() });
            prop_assert_eq!(sample.total().get(), more[0] + more[1] + 2 * more[2] + more[3]);
        }
    }
}
