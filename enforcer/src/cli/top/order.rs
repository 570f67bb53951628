//! Which container comes first. No I/O.

use crate::admin::model::ContainerView;
use clap::ValueEnum;
use enforcer_gate::Limit;
use std::cmp::Reverse;

/// By what containers are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    /// Those first that wait most for memory, then those closest to their limit
    Pressure,
    /// Those first that use most
    Usage,
    /// By namespace, pod and container
    Name,
}

impl Sort {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Pressure => "pressure",
            Self::Usage => "usage",
            Self::Name => "name",
        }
    }

    pub(super) const fn next(self) -> Self {
        match self {
            Self::Pressure => Self::Usage,
            Self::Usage => Self::Name,
            Self::Name => Self::Pressure,
        }
    }

    /// Sorts; what is equal goes by name, so that nothing jumps.
    pub(super) fn apply(self, containers: &mut [ContainerView]) {
        let name = |a: &ContainerView, b: &ContainerView| {
            (&a.namespace, &a.pod, &a.container, &a.id).cmp(&(&b.namespace, &b.pod, &b.container, &b.id))
        };
        containers.sort_by(|a, b| match self {
            Self::Pressure => pressure(a).cmp(&pressure(b)).then_with(|| name(a, b)),
            Self::Usage => Reverse(a.usage).cmp(&Reverse(b.usage)).then_with(|| name(a, b)),
            Self::Name => name(a, b),
        });
    }
}

fn pressure(view: &ContainerView) -> Reverse<(u64, u64, u64)> {
    Reverse((view.psi_some_avg10, view.psi_full_avg10, share(view)))
}

/// How much of the limit is in use, in thousandths; nothing where there is no limit.
pub(super) fn share(view: &ContainerView) -> u64 {
    match (view.usage, view.limit) {
        (Some(usage), Some(Limit::Bytes(limit))) => {
            let share = u128::from(usage.get()) * 1000 / u128::from(limit.get()).max(1);
            u64::try_from(share).unwrap_or(u64::MAX)
        }
        (Some(_) | None, Some(Limit::Max | Limit::Bytes(_)) | None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::fixture;
    use enforcer_gate::Bytes;

    #[test]
    fn what_comes_first() {
        let view = |name: &str, psi, usage: Option<u64>, limit| ContainerView {
            container: name.into(),
            psi_some_avg10: psi,
            psi_full_avg10: 0,
            usage: usage.map(Bytes::from_mib),
            limit,
            ..fixture::container()
        };
        let limit = |mib| Some(Limit::Bytes(Bytes::from_mib(mib)));
        let all = [
            view("b", 0, Some(50), limit(100)),
            view("a", 0, Some(50), limit(100)),
            view("full", 0, Some(90), limit(100)),
            view("free", 0, Some(500), Some(Limit::Max)),
            view("hard", 900, Some(10), limit(100)),
            view("dark", 0, None, None),
        ];
        for (sort, expected) in [
            (Sort::Pressure, "hard full a b dark free"),
            (Sort::Usage, "free full a b hard dark"),
            (Sort::Name, "a b dark free full hard"),
        ] {
            let mut all = all.clone();
            sort.apply(&mut all);
            let names: Vec<_> = all.iter().map(|view| view.container.as_str()).collect();
            assert_eq!(names.join(" "), expected, "{sort:?}");
        }
        assert_eq!(Sort::Pressure.next().next().next(), Sort::Pressure);
    }
}
