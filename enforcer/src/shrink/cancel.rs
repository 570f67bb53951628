//! The wish that a shrink ends: a handle, or the process's own signals.

use super::ShrinkError;
use tokio::{
    signal::unix::{Signal as UnixSignal, SignalKind, signal},
    sync::watch,
};

/// Stops shrinks, at any time and from any thread. Clones share it; what was stopped stays so, also for a shrink that
/// begins after that.
#[derive(Debug, Clone, Default)]
pub struct Cancel(watch::Sender<bool>);

impl Cancel {
    /// One that nobody has used yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything that listens to it ends; a shrink puts its files back as found first.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether [`Self::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for [`Self::cancel`]. Cancel safe.
    pub async fn cancelled(&self) {
        // It has a sender as long as this lives.
        let _ = self.0.subscribe().wait_for(|is_cancelled| *is_cancelled).await;
    }
}

/// Where one shrink hears of it.
pub(super) enum Stopper {
    /// Ctrl-C and SIGTERM.
    Signals { interrupt: UnixSignal, terminate: UnixSignal },
    /// The handle, until it was told.
    Handle(Option<Cancel>),
}

impl Stopper {
    /// The handle's, or signals' where there is none.
    pub(super) fn new(cancel: Option<&Cancel>) -> Result<Self, ShrinkError> {
        if let Some(cancel) = cancel {
            return Ok(Self::Handle(Some(cancel.clone())));
        }
        let stop = |kind| signal(kind).map_err(ShrinkError::io("listen to signals"));
        Ok(Self::Signals {
            interrupt: stop(SignalKind::interrupt())?,
            terminate: stop(SignalKind::terminate())?,
        })
    }

    /// Waits for the wish: a handle's comes once, a signal's each time. Cancel safe.
    pub(super) async fn stopped(&mut self) {
        match self {
            Self::Signals { interrupt, terminate } => tokio::select! {
                Some(()) = interrupt.recv() => {}
                Some(()) = terminate.recv() => {}
                else => std::future::pending().await,
            },
            Self::Handle(handle) => match handle.as_ref() {
                Some(cancel) => {
                    cancel.cancelled().await;
                    *handle = None;
                }
                None => std::future::pending().await,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::task::Poll;

    /// Whether it is stopped by now, without a wait.
    async fn is_stopped(stopper: &mut Stopper) -> bool {
        let mut wish = std::pin::pin!(stopper.stopped());
        poll_fn(|context| Poll::Ready(wish.as_mut().poll(context).is_ready())).await
    }

    #[test]
    fn a_handle_is_told_once_to_each_that_listens() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let cancel = Cancel::new();
            let [mut first, mut second] = [(); 2].map(|()| Stopper::new(Some(&cancel)).expect("a handle"));
            assert!(!is_stopped(&mut first).await && !cancel.is_cancelled());
            let waits = tokio::spawn(async move {
                second.stopped().await;
                second
            });
            tokio::task::yield_now().await;
            cancel.clone().cancel();
            assert!(cancel.is_cancelled());
            assert!(is_stopped(&mut first).await);
            assert!(!is_stopped(&mut first).await, "it was told");
            let mut second = waits.await.expect("no panic");
            assert!(!is_stopped(&mut second).await, "it was told");
            let mut late = Stopper::new(Some(&cancel)).expect("a handle");
            assert!(is_stopped(&mut late).await, "one that begins after it");
        });
    }
}
