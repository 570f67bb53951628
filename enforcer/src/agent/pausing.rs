//! Who asked for a pause, and waits until nothing is changed any more.

use crate::admin::{Reply, model::Done};
use tokio::sync::oneshot;

/// Beats until who asked for a pause is told what is still under way: sooner than the admin socket gives up.
const BEATS: u8 = 3;

/// Those who wait, and for how many beats: no more than the admin socket has connections, once who is gone is forgotten.
#[derive(Debug, Default)]
pub(super) struct Pausing {
    waiting: Vec<(oneshot::Sender<Reply>, u8)>,
}

impl Pausing {
    pub(super) fn wait(&mut self, reply: oneshot::Sender<Reply>) {
        self.waiting.push((reply, 0));
    }

    pub(super) const fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Who has gone is forgotten; who waits for long is told how it is.
    pub(super) fn beat(&mut self, done: &Done) {
        self.waiting.retain(|(reply, _)| !reply.is_closed());
        let is_long = |(_, beats): &mut (_, u8)| {
            *beats += 1;
            *beats >= BEATS
        };
        for (reply, _) in self.waiting.extract_if(.., is_long) {
            drop(reply.send(Reply::Done(done.clone())));
        }
    }

    /// Nothing is changed any more.
    pub(super) fn answer(&mut self, done: &Done) {
        for (reply, _) in self.waiting.drain(..) {
            drop(reply.send(Reply::Done(done.clone())));
        }
    }

    /// Somebody resumed before that.
    pub(super) fn overtaken(&mut self) {
        let text = "not paused: it was resumed before all was taken back".into();
        self.answer(&Done { paused: false, text, under_way: Vec::new() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(text: &str) -> Done {
        Done { paused: true, text: text.into(), under_way: Vec::new() }
    }

    #[test]
    fn who_is_overtaken_by_a_resume_is_told_so() {
        let mut pausing = Pausing::default();
        let (reply, mut answer) = oneshot::channel();
        pausing.wait(reply);
        let (gone, _) = oneshot::channel();
        pausing.wait(gone);
        pausing.beat(&done("paused"));
        assert_eq!(pausing.waiting.len(), 1);
        pausing.overtaken();
        let Ok(Reply::Done(said)) = answer.try_recv() else { panic!("no answer") };
        assert!(!said.paused && said.text.contains("resumed before"), "{said:?}");
        let (reply, mut answer) = oneshot::channel();
        pausing.wait(reply);
        pausing.answer(&done("paused"));
        assert_eq!(answer.try_recv(), Ok(Reply::Done(done("paused"))));
    }

    #[test]
    fn who_waits_for_long_is_told_how_it_is() {
        let mut pausing = Pausing::default();
        let (reply, mut answer) = oneshot::channel();
        pausing.wait(reply);
        for _ in 1..BEATS {
            pausing.beat(&done("not yet"));
            assert!(answer.try_recv().is_err());
        }
        pausing.beat(&done("two are left"));
        assert_eq!(answer.try_recv(), Ok(Reply::Done(done("two are left"))));
    }
}
