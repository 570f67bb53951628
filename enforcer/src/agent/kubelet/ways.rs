//! Way that is made for the kubelet where it is to lower a memory limit of a pod that asked to be cared for, and what is taken
//! back in the API where that turned out too low.

use super::{BY, Kubelet};
use crate::{
    admin::model::HappeningKind,
    agent::{
        Agent,
        reading::Reading,
        shrinks::{Ask, Ended, Failed, Given},
        steward,
        turns::With,
        wishes::{Wish, wishes},
    },
    cgroup::printable,
    clock::wall_us,
    kube::event::{Event, Severity},
    policy::Mode,
    resize::{Gate, Of, Way},
    shrink::now,
};
use enforcer_gate::{Bytes, Limit, State, Verdict};
use std::{cell::OnceCell, rc::Rc, time::Duration};

impl Agent {
    /// Makes way where the kubelet is to lower a limit of a pod that asked to be cared for.
    pub(in crate::agent) fn kubelet_turn(&mut self) {
        let Self { kubelet, book, .. } = self;
        let kernel = |id: &str| Some(book.get(id)?.fresh()?.limit());
        let said = kubelet.backs.look(&kubelet.pods, kernel, wall_us());
        self.taken_back(said);
        if self.probe.is_none() || self.state.settled().is_none() {
            return;
        }
        let at = now();
        let all: Vec<Wish> = self.kubelet.pods.values().flat_map(wishes).collect();
        for wish in all {
            let is_due = self.kubelet.tries.is_due(&wish, at) && !self.kubelet.open.contains_key(&wish.id);
            if is_due && !self.keeps_out(&wish) {
                self.make_way(wish);
            }
        }
        let Kubelet { tries, pods, kept_out, .. } = &mut self.kubelet;
        tries.retain(|uid| pods.contains_key(uid));
        kept_out.retain(|(uid, _)| pods.contains_key(uid));
    }

    /// Who changes a limit to and fro is not helped: the pod is guarded, and no more. It is said once.
    fn keeps_out(&mut self, wish: &Wish) -> bool {
        let key = (wish.uid.clone(), wish.container.clone());
        let Some(flapping) = self.kubelet.flapping.of(&key.0, &key.1, wall_us()) else {
            self.kubelet.kept_out.remove(&key);
            return false;
        };
        if self.kubelet.kept_out.insert(key) {
            let values: Vec<_> = flapping.values.iter().map(ToString::to_string).collect();
            let text = format!(
                "kept out of: its limit went to and fro {} times within half an hour, between {}, by {}",
                flapping.turns,
                values.join(", "),
                printable(&flapping.managers.join(", "))
            );
            let target = format!("pod/{}/{}:{}", wish.pod.namespace, wish.pod.name, wish.container);
            self.happened(&target, HappeningKind::Verdict, &text);
        }
        true
    }

    fn make_way(&mut self, wish: Wish) {
        let Some(entry) = self.book.get(&wish.id).filter(|_| self.steward.mode(&wish.id) >= Mode::Guard)
        else {
            return;
        };
        let Some(from) = entry.fresh().map(Reading::limit) else { return };
        if entry.in_flight || Limit::Bytes(wish.to) >= from {
            return;
        }
        let ask = Ask {
            id: wish.id.clone(),
            target: entry.target(),
            sandbox: entry.pod.sandbox.clone(),
            from,
            to: wish.to,
            by: BY,
        };
        let Some(hands) = self.with(&ask) else { return };
        let (came, within) = (Rc::<OnceCell<Way>>::default(), self.config.kubernetes.within);
        let within = Duration::from_micros(within.get());
        let watch_window = self.config.kubernetes.watch.max(self.policy.watch_window);
        let told = Rc::clone(&came);
        let work = move |given: Given| hands.make_way(given, watch_window, within, told);
        self.kubelet.open.insert(wish.id.clone(), (wish, came));
        if !self.begin(ask, work) {
            // Its pod has another change in flight: it is looked at again with the next beat.
            self.kubelet.open.retain(|id, _| self.shrinks.has(id));
        }
    }

    /// A change that was made for the kubelet has ended.
    pub(in crate::agent) fn way_ended(&mut self, ended: &Ended) {
        let Some((wish, came)) = self.kubelet.open.remove(&ended.id) else { return };
        let way = came.get();
        let is_done = matches!(ended.result, Ok(Verdict::Committed));
        if !is_done {
            self.kubelet.tries.failed(&wish, now());
        }
        let line = match (way, &ended.result) {
            (Some(way), _) => way.certificate.one_line(),
            (None, Ok(verdict)) => steward::said(verdict),
            (None, Err(failed)) => failed.why.clone(),
        };
        let was_in_force =
            way.is_some_and(|way| way.certificate.ended_in == State::Watching || way.certificate.overtaken);
        let (reason, severity) = match &ended.result {
            Ok(Verdict::Committed) => ("ShrinkSafe", Severity::Normal),
            Ok(Verdict::RolledBack(_)) if was_in_force => ("ShrinkTakenBack", Severity::Warning),
            Ok(Verdict::RolledBack(_) | Verdict::Refused(_)) => ("ShrinkRefused", Severity::Warning),
            Ok(Verdict::Feasible | Verdict::Failed(_)) | Err(_) => ("ShrinkFailed", Severity::Warning),
        };
        self.event(&wish, reason, severity, &line);
        let needs_more = way.is_some_and(|way| way.certificate.verdict.held_back());
        if let (true, true, Some(Limit::Bytes(limit))) =
            (was_in_force, needs_more, way.and_then(|way| way.certificate.previous_max))
        {
            self.take_back(&wish, limit, &ended.target);
        }
    }

    /// The kernel has the old limit again; the spec gets it too, so that the kubelet does not lower it once more.
    fn take_back(&mut self, wish: &Wish, limit: Bytes, target: &str) {
        let text = format!("the limit is {limit} again; the spec still says {}", wish.to);
        let Some(link) = self.kubelet.link.as_ref().filter(|_| self.config.kubernetes.take_back) else {
            self.happened(target, HappeningKind::Verdict, &format!("{text}: kubernetes.take_back is false"));
            return;
        };
        let decision = self.kubelet.backs.begin(wish, limit, wall_us());
        let taken = decision.is_some_and(|decision| link.outbox.decide(decision));
        let how = if taken { "it is patched back" } else { "too many patches wait, and this one is dropped" };
        self.happened(target, HappeningKind::Verdict, &format!("{text}: {how}"));
    }

    fn event(&mut self, wish: &Wish, reason: &'static str, severity: Severity, note: &str) {
        let Some(link) = self.kubelet.link.as_ref().filter(|_| self.config.kubernetes.events) else { return };
        let at_us = wall_us();
        link.outbox.event(Event {
            pod: wish.pod.clone(),
            uid: wish.uid.clone(),
            node: self.kubelet.node.clone(),
            reason,
            action: "Shrink",
            severity,
            note: format!("{}: {note}", wish.container),
            first_us: at_us,
            last_us: at_us,
            count: 1,
        });
    }
}

impl With {
    /// One shrink through the gate, beside the kubelet's own.
    async fn make_way(
        self,
        mut given: Given,
        watch_window: enforcer_gate::Micros,
        within: Duration,
        told: Rc<OnceCell<Way>>,
    ) -> Result<Verdict, Failed> {
        let actor = self.actor(&mut given).await?;
        let Self { pod, container, to, bus, policy, state_dir, .. } = self;
        let policy = enforcer_gate::Policy { watch_window, ..policy };
        let (observer, cancel) = (&mut given.observer, Some(given.cancel));
        let gate = Gate { bus: &bus, policy, state_dir, observer, cancel };
        let way = actor.make_way(Of { pod: &pod, container: &container }, to, within, gate).await;
        let way = way.map_err(|error| crate::chain::chain(&error))?;
        let (verdict, is_taken) = (way.certificate.verdict.clone(), way.is_taken);
        // It is set once.
        let _ = told.set(way);
        if is_taken == Some(false) {
            let why = format!("the kubelet has not lowered it to {to} in time: it is as it was");
            return Err(why.into());
        }
        Ok(verdict)
    }
}
