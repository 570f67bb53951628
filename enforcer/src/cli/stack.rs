//! A stack whose size no limit of the process decides.

use nix::sys::signal::{SigSet, SigmaskHow};
use std::{
    process::ExitCode,
    sync::{Mutex, PoisonError},
    thread::{Builder, ScopedJoinHandle},
};

/// As much as the first thread has by default.
const BYTES: usize = 8 << 20;

/// Runs it on a stack of [`BYTES`], whatever `ulimit -s` says. Meanwhile the calling thread takes no signal, so the one
/// that works has them as if it were alone.
pub(super) fn with_own(run: impl FnOnce() -> ExitCode + Send) -> ExitCode {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).ok();
    let restore = || {
        // It was in force before.
        let _ = before.as_ref().map(SigSet::thread_set_mask);
    };
    let run = Mutex::new(Some(run));
    let take = || {
        restore();
        run.lock().unwrap_or_else(PoisonError::into_inner).take().map(|run| run())
    };
    let ended = std::thread::scope(|scope| {
        let thread = Builder::new().name("enforcer".into()).stack_size(BYTES).spawn_scoped(scope, take);
        thread.map(ScopedJoinHandle::join)
    });
    match ended {
        Ok(Ok(Some(exit))) => exit,
        // It panicked, and has said so.
        Ok(_) => ExitCode::from(101),
        // No thread can be had: it may do on what stack there is.
        Err(_) => take().unwrap_or(ExitCode::FAILURE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::Signal;

    #[test]
    #[expect(clippy::large_stack_arrays, reason = "that there is room is what is looked at")]
    fn signals_are_as_before_there_and_held_back_here_meanwhile() {
        let ours = SigSet::from_iter([Signal::SIGUSR2]);
        ours.thread_block().expect("blocks");
        let mask = || SigSet::thread_get_mask().expect("is read");
        let exit = with_own(|| {
            assert!(mask().contains(Signal::SIGUSR2) && !mask().contains(Signal::SIGTERM));
            // By reference: without optimisation each move is one more copy.
            let here = std::hint::black_box(&[0_u8; 3 << 20]);
            ExitCode::from(here[0] + 7)
        });
        assert_eq!(exit, ExitCode::from(7));
        assert_eq!(with_own(|| panic!("told")), ExitCode::from(101));
    }
}
