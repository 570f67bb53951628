//! Which pods and containers the node has, as the runtime tells it, and in which cgroups they really are
//! (docs/inventory.md).
//!
//! [`Inventory`] and what it stands on ([`model`], [`target`], [`cgroups_path`], [`home`], [`verbose`], [`intake`]) do no
//! I/O. [`Locator`] reads where a process is, [`in_force`] which limits hold there, [`Survey`] asks the runtime, [`watch`] keeps an inventory current.

mod asked;
mod back_off;
pub mod cgroups_path;
mod hints;
pub mod home;
mod in_force;
pub mod intake;
mod known;
mod locate;
pub mod model;
mod survey;
pub mod target;
pub mod verbose;
mod watch;

pub use hints::{Cue, Hints};
pub use in_force::{InForce, in_force, limited};
pub use known::{CONTAINERS_MAX, Change, Event, Found, Inventory, Listing, Lost, PODS_MAX, Step};
pub use locate::{Locator, Wanted};
pub use model::{Container, ContainerState, Home, Limits, Located, NoHome, Pod, PodState};
pub use survey::{CALLS_MAX, Survey};
pub use target::{PREFIX as TARGET_PREFIX, Resolved, Target, TargetError};
pub use watch::{Shared, Tempo, Update, Watch, id_in, watch};
