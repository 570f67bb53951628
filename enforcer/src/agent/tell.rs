//! What the agent tells: to its log, to who asks, and to who scrapes.

use super::{Agent, book::Entry, view::view};
use crate::{
    admin::{
        Refused, Reply,
        model::{Explanation, HappeningKind, Refusal, Status},
    },
    clock::{kernel_release, wall_us},
    inventory::Target,
    shrink::now,
};
use std::collections::BTreeMap;

impl Agent {
    /// Something happened.
    pub(super) fn happened(&mut self, target: &str, kind: HappeningKind, text: &str) {
        let happening = self.recent.tell(wall_us(), target, kind, text);
        (self.tell)(happening);
    }

    /// Why a pod or container is as it is.
    pub(super) fn explain(&self, target: &Target) -> Reply {
        match self.unknown(target) {
            Some(error) => {
                let todo = "enforcer ps lists pods and containers".into();
                Reply::Refused(Refused::NoSuch, Refusal { error, todo })
            }
            None => Reply::Explanation(Box::new(self.explanation(target))),
        }
    }

    pub(super) fn status(&self) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime: now().since(self.started),
            kernel: kernel_release(),
            paused: self.paused,
            parts: self.health.parts(),
            pods: self.runtime.inventory().map_or(0, |shared| shared.inventory().pods().count() as u64),
            containers: self.book.len() as u64,
            in_flight: self.shrinks.list(),
            recent: self.recent.last(),
            lost: self.lost(),
        }
    }

    /// What was lost, by what.
    pub(super) fn lost(&self) -> BTreeMap<String, u64> {
        let mut lost: BTreeMap<String, u64> =
            self.kernel_drops().into_iter().map(|(kind, count)| (kind.name().to_owned(), count)).collect();
        if let Some(recorder) = &self.recorder {
            lost.insert("recorder_queue".into(), recorder.unqueued());
        }
        if let Some(guards) = &self.guards {
            lost.insert("guard_verdict".into(), guards.dropped());
        }
        lost.insert("question".into(), self.asked.unasked());
        lost.insert("stranger".into(), self.asked.strangers());
        lost.retain(|_, count| *count > 0);
        lost
    }

    /// Why a target means nothing.
    fn unknown(&self, target: &Target) -> Option<String> {
        match self.runtime.inventory() {
            Some(shared) => target.resolve(&shared.inventory()).err().map(|error| error.to_string()),
            None => Some(format!("{target} is not known: no container runtime was found")),
        }
    }

    fn explanation(&self, target: &Target) -> Explanation {
        let is_meant = |name: &str, container: &str| {
            let pod = format!("pod/{}/{}", target.namespace, target.name);
            match &target.container {
                Some(wanted) => name == format!("{pod}:{wanted}") && container == wanted,
                None => name.strip_prefix(&pod).is_some_and(|rest| rest.is_empty() || rest.starts_with(':')),
            }
        };
        let of = |name: &str| {
            let container = name.rsplit_once(':').map_or("", |(_, container)| container);
            is_meant(name, container)
        };
        Explanation {
            containers: self.views(|name| of(name)),
            in_flight: self.shrinks.list().into_iter().filter(|flight| of(&flight.target)).collect(),
            recent: self.recent.of(of),
            paused: self.paused,
        }
    }

    pub(super) fn views(&self, is_meant: impl Fn(&str) -> bool) -> Vec<crate::admin::model::ContainerView> {
        let entries = self.book.iter().filter(|(_, entry)| is_meant(&entry.target()));
        let mut views: Vec<_> = entries.map(|(id, entry)| self.view_of(id, entry)).collect();
        views.sort_by(|a, b| {
            (&a.namespace, &a.pod, &a.container, &a.id).cmp(&(&b.namespace, &b.pod, &b.container, &b.id))
        });
        views
    }

    pub(super) fn view_of(&self, id: &str, entry: &Entry) -> crate::admin::model::ContainerView {
        let drifted = self.sentinel.of(entry);
        let drifted: Vec<_> = drifted.map(|((_, file), value, expected)| (file, value, expected)).collect();
        view(entry, &self.policy, self.steward.mode(id).name(), &drifted)
    }
}
