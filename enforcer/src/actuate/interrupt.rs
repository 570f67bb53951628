//! Getting a thread out of a blocked write to a limit file.
//!
//! The kernel's loops that reclaim on behalf of such a write look for a pending signal before each step and before they
//! would kill (`memory_max_write`, `memory_high_write` and `memory_reclaim` in `mm/memcontrol.c`). A real-time signal with a
//! handler that does nothing is enough to make them return.

use super::ActuateError;
use nix::{errno::Errno, unistd::Pid};
use std::{
    mem::MaybeUninit,
    ptr,
    sync::{Mutex, PoisonError},
};

/// The signal in use, once it is installed.
static SIGNAL: Mutex<Option<libc::c_int>> = Mutex::new(None);

extern "C" fn nothing(_: libc::c_int) {}

/// A signal of ours, installed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interrupt(libc::c_int);

impl Interrupt {
    /// Takes the first real-time signal that nobody has a handler for; later calls give the same one.
    pub(super) fn install() -> Result<Self, ActuateError> {
        let mut installed = SIGNAL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signal) = *installed {
            return Ok(Self(signal));
        }
        for signal in libc::SIGRTMIN()..=libc::SIGRTMAX() {
            if action(signal, None)?.sa_sigaction == libc::SIG_DFL {
                // No SA_RESTART: the point is that the call returns.
                // SAFETY: a zeroed sigaction is a valid one: no flags, empty mask.
                let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
                ours.sa_sigaction = nothing as *const () as libc::sighandler_t;
                action(signal, Some(&ours))?;
                *installed = Some(signal);
                return Ok(Self(signal));
            }
        }
        Err(ActuateError::system("find a free real-time signal", Errno::EBUSY))
    }

    /// Lets the signal through to the calling thread.
    pub(super) fn unblock(self) {
        // SAFETY: `set` is initialised by sigemptyset before it is used; pthread_sigmask reads it only.
        unsafe {
            let mut set = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), self.0);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
        }
    }

    /// Signals one thread of this process. A thread that is gone is no error.
    pub(super) fn kick(self, thread: Pid) {
        // SAFETY: tgkill takes three numbers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.as_raw(), self.0) };
    }
}

fn action(signal: libc::c_int, new: Option<&libc::sigaction>) -> Result<libc::sigaction, ActuateError> {
    let mut old = MaybeUninit::zeroed();
    // SAFETY: `new` is a valid action or null; `old` is written by the call and zeroed before it.
    let (done, old) = unsafe {
        let done = libc::sigaction(signal, new.map_or(ptr::null(), ptr::from_ref), old.as_mut_ptr());
        (done, old.assume_init())
    };
    Errno::result(done).map(|_| old).map_err(|errno| ActuateError::system("install a signal handler", errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::gettid;
    use std::{fs::File, io::Read as _, sync::mpsc};

    /// A read on a pipe that nobody writes to.
    fn blocked_read() -> (File, File) {
        let (read, write) = nix::unistd::pipe().unwrap();
        (File::from(read), File::from(write))
    }

    #[test]
    fn a_blocked_call_returns_when_its_thread_is_kicked() {
        let interrupt = Interrupt::install().unwrap();
        let (mut read, _write) = blocked_read();
        let (tid, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            interrupt.unblock();
            tid.send(gettid()).unwrap();
            read.read(&mut [0]).unwrap_err().raw_os_error()
        });
        let tid = told.recv().unwrap();
        while !thread.is_finished() {
            interrupt.kick(tid);
            std::thread::yield_now();
        }
        assert_eq!(thread.join().unwrap(), Some(libc::EINTR));
    }
}
