//! The drift sentinel: every write to a limit file has a name to it, and a value that is not what is expected is told.
//!
//! The kernel programs tell of each write's begin and end (`probe`). [`Watch`] joins the two, [`classify`] says why a
//! limit is what it is; neither does I/O nor reads a clock. [`mend`] puts an expected value back, [`keep`] has systemd hold the value that is in
//! force.

mod cause;
mod keep;
mod mend;
mod turns;
mod unit;
mod value;
mod watch;
mod weight;
mod writer;

pub use cause::{Cause, Change, Context, Who, accepted, classify};
pub use keep::keep;
pub use mend::{MendError, Way, is_mended, mend};
pub use turns::{Place, Turns};
pub use value::{Expected, parse, parse_expected, raw, shown};
pub use watch::{About, Drift, Outcome, Report, Watch};
pub use weight::Conversion;
pub use writer::who;
