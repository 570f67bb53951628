//! The user's wish to stop, waited for together with time.

use nix::{
    errno::Errno,
    sys::{
        signal::{SigHandler, SigSet, SigmaskHow, Signal, signal},
        time::TimeSpec,
    },
};
use std::{
    ptr,
    time::{Duration, Instant},
};

/// Ctrl-C and SIGTERM, held back from this thread and those that it starts while this lives.
pub(super) struct StopSignals {
    ours: SigSet,
    before: SigSet,
}

impl StopSignals {
    /// Holds them back from now on.
    pub(super) fn hold() -> Result<Self, Errno> {
        let ours = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        let before = ours.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(Self { ours, before })
    }

    /// Waits so long. `true`: one of them came before.
    pub(super) fn came_within(&self, span: Duration) -> bool {
        let until = Instant::now() + span;
        loop {
            let left = TimeSpec::from_duration(until.saturating_duration_since(Instant::now()));
            // SAFETY: both structures outlive the call; it is told to store nothing.
            let signal = unsafe { libc::sigtimedwait(self.ours.as_ref(), ptr::null_mut(), left.as_ref()) };
            match Errno::result(signal) {
                Ok(_) => return true,
                Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        // It was in force before.
        let _ = self.before.thread_set_mask();
    }
}

/// Ctrl-C and SIGTERM end the program on the spot from now on, whoever listened to them: there is nothing left to put
/// back, and it may wait for somebody who does not read.
pub(super) fn end_at_once() {
    for number in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: the default effect is no handler of ours.
        let _ = unsafe { signal(number, SigHandler::SigDfl) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_the_wait_and_time_does_as_well() {
        let stop = StopSignals::hold().unwrap();
        assert!(!stop.came_within(Duration::from_millis(10)));
        // To this thread: nobody else of the test runner holds it back.
        nix::sys::signal::raise(Signal::SIGTERM).unwrap();
        assert!(stop.came_within(Duration::from_mins(1)));
        assert!(!stop.came_within(Duration::ZERO));
    }
}
