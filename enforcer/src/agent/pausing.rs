//! Who asked for a pause, and waits until nothing is changed any more.

use crate::admin::{Reply, model::Done};
use tokio::sync::oneshot;

/// Those who wait: no more than the admin socket has connections, once who is gone is forgotten.
#[derive(Debug, Default)]
pub(super) struct Pausing {
    waiting: Vec<oneshot::Sender<Reply>>,
}

impl Pausing {
    pub(super) fn wait(&mut self, reply: oneshot::Sender<Reply>) {
        self.waiting.push(reply);
    }

    pub(super) fn forget_gone(&mut self) {
        self.waiting.retain(|reply| !reply.is_closed());
    }

    /// Nothing is changed any more.
    pub(super) fn answer(&mut self, done: &Done) {
        for reply in self.waiting.drain(..) {
            drop(reply.send(Reply::Done(done.clone())));
        }
    }

    /// Somebody resumed before that.
    pub(super) fn overtaken(&mut self) {
        let text = "not paused: it was resumed before all was taken back".into();
        self.answer(&Done { paused: false, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_overtaken_by_a_resume_is_told_so() {
        let mut pausing = Pausing::default();
        let (reply, mut answer) = oneshot::channel();
        pausing.wait(reply);
        let (gone, _) = oneshot::channel();
        pausing.wait(gone);
        pausing.forget_gone();
        assert_eq!(pausing.waiting.len(), 1);
        pausing.overtaken();
        let Ok(Reply::Done(done)) = answer.try_recv() else { panic!("no answer") };
        assert!(!done.paused && done.text.contains("resumed before"), "{done:?}");
        let (reply, mut answer) = oneshot::channel();
        pausing.wait(reply);
        let done = Done { paused: true, text: "paused".into() };
        pausing.answer(&done);
        assert_eq!(answer.try_recv(), Ok(Reply::Done(done)));
    }
}
