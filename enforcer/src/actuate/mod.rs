//! Changing cgroups: every lower value is journalled, handed to a process that would undo it, written, and read back.
//!
//! Three parties can raise: the session's own raising thread ([`RestoreHandle`]), the restorer process (when this one
//! dies), and [`recover`] (when both died). All go through one function, which replaces a value only if it is exactly
//! the one that was written here, and only by a higher one.

mod above;
mod error;
mod handle;
mod holder;
mod interrupt;
mod journal;
mod lease;
mod limit_fd;
mod nonblock;
mod overlap;
mod pending;
mod pidfd;
mod record;
mod recover;
mod restorer;
mod session;
mod settle;
mod shared;
mod state_dir;
mod urgent;

pub use error::ActuateError;
pub use handle::RestoreHandle;
pub(crate) use holder::{holder, named};
pub use lease::{at_work, check_free, is_held};
pub use nonblock::{WriteMethod, write_method};
pub use recover::{Recovered, RecoveredFile, RecoveredRun, RecoveredValue, recover};
pub use restorer::{Acted, Heart, run_restorer_if_asked};
pub use session::{Foretold, Session, SessionOptions};
pub use state_dir::{STATE_DIR_DEFAULT, StateDir};
