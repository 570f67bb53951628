//! Which records are wanted. No I/O.

use super::ListOptions;
use crate::oom::{CgroupName, OomRecord, Stored};

/// What the user asked for.
pub(super) struct Filter<'a> {
    options: &'a ListOptions,
    /// Microseconds since 1970.
    from_us: u64,
}

impl<'a> Filter<'a> {
    /// `now_us`: microseconds since 1970.
    pub(super) fn new(options: &'a ListOptions, now_us: u64) -> Self {
        Self { options, from_us: options.since.map_or(0, |since| now_us.saturating_sub(since.get())) }
    }

    /// Whether a record is wanted. That something was lost is always worth knowing.
    pub(super) fn wants(&self, stored: &Stored) -> bool {
        match stored {
            Stored::Oom(record) => record.wall_us >= self.from_us && self.concerns(record),
            Stored::Lost(lost) => lost.wall_us >= self.from_us,
            Stored::Began(began) => began.wall_us >= self.from_us,
        }
    }

    fn concerns(&self, record: &OomRecord) -> bool {
        let ListOptions { cgroup, pod, victim, .. } = self.options;
        let in_it = |wanted: &String| places(record).any(|place| is_below(place, wanted));
        let of_pod = |wanted: &String| places(record).any(|place| is_of_pod(place, wanted));
        let killed = |wanted: &String| {
            record.victims.iter().any(|victim| {
                victim.task.pid.to_string() == *wanted || victim.task.comm.contains(wanted.as_str())
            })
        };
        cgroup.as_ref().is_none_or(in_it)
            && pod.as_ref().is_none_or(of_pod)
            && victim.as_ref().is_none_or(killed)
    }
}

/// The owner's and the victims' cgroups.
fn places(record: &OomRecord) -> impl Iterator<Item = &CgroupName> {
    let victims = record.victims.iter().filter_map(|victim| victim.task.cgroup);
    record.owner_id().into_iter().chain(victims).filter_map(|id| record.cgroup(id))
}

fn is_below(place: &CgroupName, wanted: &str) -> bool {
    let wanted = wanted.strip_prefix("/sys/fs/cgroup").unwrap_or(wanted).trim_matches('/');
    let rest = place.path.as_deref().and_then(|path| path.strip_prefix(wanted));
    rest.is_some_and(|rest| wanted.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

fn is_of_pod(place: &CgroupName, wanted: &str) -> bool {
    let uid = place.place.as_ref().and_then(|place| place.pod.as_deref());
    let name = place.pod.as_deref();
    uid.is_some_and(|uid| uid.starts_with(wanted))
        || name.is_some_and(|name| name == wanted || name.split('/').next_back() == Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use enforcer_gate::CgroupId;
    use std::path::Path;

    fn named(path: &str) -> CgroupName {
        CgroupName {
            id: CgroupId::new(1),
            path: Some(path.into()),
            place: Some(crate::names::Place::of(Path::new(path))),
            age_us: None,
            gone: false,
            pod: Some("prod/web-0".into()),
            container: None,
        }
    }

    #[test]
    fn a_cgroup_and_what_is_below_it() {
        let place = named("kubepods/pod1-2/x");
        for (wanted, expected) in [
            ("kubepods", true),
            ("/kubepods/", true),
            ("/sys/fs/cgroup/kubepods/pod1-2/x", true),
            ("/", true),
            ("kubepods/pod1", false),
            ("pod1-2", false),
        ] {
            assert_eq!(is_below(&place, wanted), expected, "{wanted}");
        }
    }

    #[test]
    fn a_pod_by_name_or_uid() {
        let place = named("kubepods/pod1d2c-3333/x");
        for (wanted, expected) in
            [("web-0", true), ("prod/web-0", true), ("1d2c", true), ("web", false), ("3333", false)]
        {
            assert_eq!(is_of_pod(&place, wanted), expected, "{wanted}");
        }
    }
}
