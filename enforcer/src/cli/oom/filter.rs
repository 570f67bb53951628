//! Which records are wanted. No I/O.

use super::ListOptions;
use crate::{
    cli::records::is_below,
    inventory::TARGET_PREFIX,
    oom::{CgroupName, OomRecord, Stored},
};

/// What the user asked for.
pub(super) struct Filter<'a> {
    options: &'a ListOptions,
    /// Microseconds since 1970.
    from_us: u64,
}

impl<'a> Filter<'a> {
    pub(super) fn new(options: &'a ListOptions) -> Self {
        Self { options, from_us: options.show.since_us() }
    }

    /// Whether a record is wanted. That something was lost is always worth knowing.
    pub(super) fn wants(&self, stored: &Stored) -> bool {
        match stored {
            Stored::Oom(record) => record.wall_us >= self.from_us && self.concerns(record),
            Stored::Lost(lost) => lost.wall_us >= self.from_us,
            // Of no cgroup: for who wants all, unless something is missing.
            Stored::Began(began) => {
                began.wall_us >= self.from_us && (!self.is_narrow() || !began.lost.is_empty())
            }
        }
    }

    fn is_narrow(&self) -> bool {
        let ListOptions { cgroup, pod, victim, .. } = self.options;
        [cgroup, pod, victim].iter().any(|wanted| wanted.is_some())
    }

    fn concerns(&self, record: &OomRecord) -> bool {
        let ListOptions { cgroup, pod, victim, .. } = self.options;
        let in_it = |wanted: &String| {
            places(record).any(|place| place.path.as_deref().is_some_and(|path| is_below(path, wanted)))
        };
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

fn is_of_pod(place: &CgroupName, wanted: &str) -> bool {
    let wanted = wanted.strip_prefix(TARGET_PREFIX).unwrap_or(wanted);
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
            image: None,
        }
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: ListOptions,
    }

    #[test]
    fn that_recording_began_is_of_no_pod() {
        use clap::Parser as _;
        let began = |lost: &[&str]| {
            let lost = lost.iter().map(ToString::to_string).collect();
            let (boot_id, kernel) = (String::new(), "6.12".into());
            Stored::Began(crate::oom::Began { wall_us: u64::MAX, boot_id, kernel, lost })
        };
        for (words, expected) in [
            (&["oom"][..], [true, true]),
            (&["oom", "--pod", "web-0"], [false, true]),
            (&["oom", "--cgroup", "a"], [false, true]),
            (&["oom", "--victim", "1"], [false, true]),
        ] {
            let Line { options } = Line::try_parse_from(words).expect("parses");
            let filter = Filter::new(&options);
            assert_eq!([&[][..], &["a hook"]].map(|lost| filter.wants(&began(lost))), expected, "{words:?}");
        }
    }

    #[test]
    fn a_pod_by_name_or_uid() {
        let place = named("kubepods/pod1d2c-3333/x");
        for (wanted, expected) in [
            ("web-0", true),
            ("prod/web-0", true),
            ("pod/prod/web-0", true),
            ("pod/dev/web-0", false),
            ("pod/prod/web", false),
            ("1d2c", true),
            ("web", false),
            ("3333", false),
        ] {
            assert_eq!(is_of_pod(&place, wanted), expected, "{wanted}");
        }
    }
}
