//! What the API says of a pod's resize, as text.

use crate::{
    cgroup::printable,
    kube::{
        reasons::Reason,
        resize::{Phase, Resize},
        state::PodState,
    },
    utc::utc,
};
use std::fmt::Write as _;

/// How it stands, in a line.
pub(super) fn standing(resize: &Resize) -> String {
    let what = match resize {
        Resize::None => return "no resize is in flight".into(),
        Resize::InFlight { phase: phase @ (Phase::Asked | Phase::Unexplained), .. } => {
            format!("in flight: {}", phase.name())
        }
        Resize::InFlight { phase: Phase::Actuating, since_us, .. } => match since_us {
            Some(since) => format!("in flight since {}", utc(*since)),
            None => "in flight".into(),
        },
        Resize::Deferred { condition, .. }
        | Resize::Infeasible { condition, .. }
        | Resize::Error { condition, .. } => match condition.since_us {
            Some(since) => format!("{} since {}", resize.name(), utc(since)),
            None => resize.name().into(),
        },
    };
    let changes: Vec<_> = resize.changes().iter().map(|change| printable(&change.to_string())).collect();
    if changes.is_empty() { what } else { format!("{what} ({})", changes.join(", ")) }
}

/// Each reason with its evidence and the way out.
pub(super) fn reasons(reasons: &[Reason], indent: usize) -> String {
    let mut text = String::new();
    let blank = " ".repeat(indent);
    for Reason { code, what, evidence, todo } in reasons {
        // Writing to a String can't fail, here and below.
        let _ = writeln!(text, "{blank}{code}: {}", printable(what));
        for (name, value) in evidence {
            let _ = writeln!(text, "{blank}    {}: {}", printable(name), printable(value));
        }
        if !todo.is_empty() {
            let _ = writeln!(text, "{blank}    -> {}", printable(todo));
        }
    }
    text
}

/// Who wrote last, where anybody did.
pub(super) fn writer(pod: &PodState) -> Option<String> {
    let writer = pod.last_resize.as_ref()?;
    let at = writer.at_us.map(|at| format!(" at {}", utc(at))).unwrap_or_default();
    Some(format!("its resources were last resized by {}{at}", printable(&writer.manager)))
}
