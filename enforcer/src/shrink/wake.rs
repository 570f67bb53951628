//! Descriptors that wake the loop: PSI, `memory.events`, the user's wish to stop.

use super::{
    ShrinkError,
    cancel::{Cancel, Stopper},
};
use crate::actuate::{Acted, Session};
use crate::cgroup::{Cgroup, CgroupError, PressureTrigger, Stall};
use enforcer_gate::{Micros, Signal};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The shortest window that the kernel takes for a PSI trigger (kernel/sched/psi.c, `WINDOW_MIN_US`).
const PSI_WINDOW: Micros = Micros::from_millis(500);
/// Stall within the window that fires it.
const PSI_STALL: Micros = Micros::from_millis(50);
/// The same for a process without `CAP_SYS_RESOURCE`, which gets multiples of 2 s only (6.5).
const PSI_WINDOW_COMMON: Micros = Micros::from_secs(2);
const PSI_STALL_COMMON: Micros = Micros::from_millis(200);

/// Everything that can wake the loop besides the kernel programs.
pub(super) struct Wakeups {
    pressure: Option<AsyncFd<PressureTrigger>>,
    events: AsyncFd<OwnedFd>,
    restorer: Option<AsyncFd<Acted>>,
    stopper: Stopper,
}

impl Wakeups {
    pub(super) fn new(cgroup: &Cgroup, cancel: Option<&Cancel>) -> Result<Self, ShrinkError> {
        let pressure =
            trigger(cgroup)?.map(urgent).transpose().map_err(ShrinkError::io("listen to memory.pressure"))?;
        let events = urgent(cgroup.open_file("memory.events.local", OFlag::O_RDONLY)?)
            .map_err(ShrinkError::io("listen to memory.events.local"))?;
        Ok(Self { pressure, events, restorer: None, stopper: Stopper::new(cancel)? })
    }

    /// Has the end of the session's restorer told as well.
    pub(super) fn watch(&mut self, session: &Session) -> Result<(), ShrinkError> {
        // SAFETY: the descriptor is owned, is given to nobody else, and lives as long as the registration.
        let registered = session.restorer_acted().and_then(|acted| unsafe {
            AsyncFd::register_with_interest(acted, Interest::READABLE).map_err(std::io::Error::from)
        });
        self.restorer = Some(registered.map_err(ShrinkError::io("watch the restorer"))?);
        Ok(())
    }

    /// Whether the restorer has put everything back, or has ended, and that was not told yet.
    pub(super) fn restorer_acted(&mut self) -> bool {
        self.restorer.take_if(|acted| acted.get_ref().is_so()).is_some()
    }

    /// Waits until it is to stop. Cancel safe.
    pub(super) async fn stopped(&mut self) {
        self.stopper.stopped().await;
    }

    /// The next thing to tell the gate. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Signal, ShrinkError> {
        tokio::select! {
            () = self.stopper.stopped() => Ok(Signal::Cancel),
            ended = ended(self.restorer.as_ref()) => {
                // It stays ended.
                self.restorer = None;
                ended.map(|()| Signal::RestorerGone)
            }
            ready = pressed(self.pressure.as_ref()) => ready.map(|()| Signal::Pressure),
            signal = changed(&self.events) => signal,
        }
    }
}

/// The trigger that this process may have; `None` where it may have none. Readings tell of stalls as well, later.
fn trigger(cgroup: &Cgroup) -> Result<Option<PressureTrigger>, CgroupError> {
    let is_refused = |error: &CgroupError| {
        matches!(error, CgroupError::Io { source, .. }
            if matches!(source.raw_os_error(), Some(libc::EINVAL | libc::EPERM | libc::EACCES)))
    };
    let with = |stall, window| PressureTrigger::new(cgroup, Stall::Full, stall, window);
    let found = with(PSI_STALL, PSI_WINDOW);
    match found {
        Err(error) if is_refused(&error) => match with(PSI_STALL_COMMON, PSI_WINDOW_COMMON) {
            Err(error) if is_refused(&error) => Ok(None),
            found => found,
        },
        found => found,
    }
}

/// Registers for priority data, which is how cgroup files tell of a change.
fn urgent<T: AsRawFd>(file: T) -> std::io::Result<AsyncFd<T>> {
    // SAFETY: `file` owns its descriptor, never gives out another one, and lives as long as the registration.
    unsafe { AsyncFd::register_with_interest(file, Interest::PRIORITY) }.map_err(std::io::Error::from)
}

async fn pressed(trigger: Option<&AsyncFd<PressureTrigger>>) -> Result<(), ShrinkError> {
    match trigger {
        Some(trigger) => {
            let mut guard = trigger
                .ready(Interest::PRIORITY)
                .await
                .map_err(ShrinkError::io("wait for memory.pressure"))?;
            guard.clear_ready();
            Ok(())
        }
        None => std::future::pending().await,
    }
}

async fn ended(process: Option<&AsyncFd<Acted>>) -> Result<(), ShrinkError> {
    match process {
        Some(process) => process.readable().await.map(drop).map_err(ShrinkError::io("wait for the restorer")),
        None => std::future::pending().await,
    }
}

async fn changed(events: &AsyncFd<OwnedFd>) -> Result<Signal, ShrinkError> {
    let mut guard =
        events.ready(Interest::PRIORITY).await.map_err(ShrinkError::io("wait for memory.events.local"))?;
    // kernfs reports readiness until the file is read again (fs/kernfs/file.c, kernfs_generic_poll).
    let mut buffer = [0_u8; 512];
    match nix::sys::uio::pread(guard.get_inner(), &mut buffer, 0) {
        Ok(_) => {
            guard.clear_ready();
            Ok(Signal::EventsChanged)
        }
        // Its removal wakes too.
        Err(Errno::ENODEV) => Ok(Signal::Gone),
        Err(errno) => Err(ShrinkError::io("read memory.events.local")(errno.into())),
    }
}
