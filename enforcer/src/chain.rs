//! Errors with all that is behind them.

use crate::cgroup::shown;

/// An error with everything that caused it, fit to print.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    shown(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
}
