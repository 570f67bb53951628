//! A certificate as a table for people. No I/O.

use super::table::{Align, table};
use crate::{cgroup::shown, quantity::exact};
use enforcer_gate::{Bytes, Certificate, Floor, Headroom, Peak, Reason, Term, Verdict};
use std::{fmt::Write as _, path::Path};

/// Whether a killer would act on this cgroup is not visible from outside.
const LET_THROUGH: &str = "--allow-pressure-killer, if it leaves this cgroup and those above alone \
                           (of systemd-oomd, oomctl lists what it watches)";

/// The whole certificate.
pub(super) fn render(cgroup: &Path, certificate: &Certificate) -> String {
    let mut text = String::new();
    let Certificate { target, policy, stall, deltas, .. } = certificate;
    let previous = certificate.previous_max.map_or("unknown".into(), |max| max.to_string());
    // Writing to a String can't fail, here and below.
    let _ = writeln!(text, "{}: {previous} -> {}", shown(cgroup), exact(*target));
    let mut rows = vec![["verdict".into(), certificate.verdict.to_string()]];
    let mut row = |name: &str, value: String| rows.push([name.into(), value]);
    if let Verdict::Refused(Reason::PressureKiller(_)) = certificate.verdict {
        row("what to do", LET_THROUGH.into());
    }
    if let Some(safe) = certificate.safe_minimum {
        row("safe minimum", format!("{safe} ({})", exact(safe)));
    }
    if let Some(high) = certificate.previous_high {
        let brake = certificate.brake.map_or("none".into(), |brake| brake.to_string());
        row("memory.high", format!("{high} as found; brake {brake}"));
    }
    if let Some(Peak { window, samples, before_end, .. }) = certificate.peak {
        row("observed", format!("{window}, {samples} readings; the peak came {before_end} before the last"));
        row("growth", format!("{}/s at the fastest", certificate.growth_per_second));
    }
    row(
        "stall added",
        format!(
            "some {} of {}, full {} of {} (budget)",
            stall.some_total, policy.stall.some_total, stall.full_total, policy.stall.full_total
        ),
    );
    if !certificate.reclaim.is_empty() {
        let steps = certificate.reclaim.len() as u64 + certificate.reclaim_dropped;
        let freed: Bytes = certificate.reclaim.iter().map(|step| step.freed).sum();
        let stalled = stall.reclaim_stall_per_mib;
        row("reclaimed", format!("{freed} in {steps} steps, {stalled} of stall per MiB"));
    }
    let counts: Vec<_> = [
        ("high", deltas.high),
        ("max", deltas.max),
        ("oom", deltas.oom),
        ("oom_kill", deltas.oom_kill),
        ("file refaults", deltas.refault_file.get() / enforcer_gate::PAGE_SIZE),
        ("anon refaults", deltas.refault_anon.get() / enforcer_gate::PAGE_SIZE),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(name, count)| format!("{name} {count}"))
    .collect();
    row("events", if counts.is_empty() { "none".into() } else { counts.join(", ") });
    let states: Vec<_> = certificate.states.iter().map(|s| format!("{} {}", s.state, s.took)).collect();
    row("states", states.join(", "));
    text.push_str(&table(2, [Align::Left; 2], &rows));
    if let Some(peak) = &certificate.peak {
        let last = certificate.floor.unwrap_or(peak.floor);
        text.push_str(&floor(&peak.floor, &last));
    }
    if let Some(headroom) = &certificate.headroom {
        let _ = writeln!(text, "  headroom at {} (the greatest counts)", exact(*target));
        text.push_str(&terms(headroom));
    }
    for note in &certificate.notes {
        let _ = writeln!(text, "  note: {}", shown(note));
    }
    if certificate.notes_dropped > 0 {
        let _ = writeln!(text, "  note: {} more did not fit", certificate.notes_dropped);
    }
    text
}

/// A floor by term, at its peak and at the last reading.
pub(super) fn floor(peak: &Floor, last: &Floor) -> String {
    let [at_peak, at_last] = [peak, last].map(|floor| floor.terms.list());
    let mut rows = vec![["floor".into(), "peak".into(), "last".into(), String::new()]];
    for (peak, last) in at_peak.iter().zip(&at_last) {
        if peak.bytes > Bytes::ZERO || last.bytes > Bytes::ZERO {
            let name = format!("  {}", peak.name);
            rows.push([name, peak.bytes.to_string(), last.bytes.to_string(), peak.meaning.into()]);
        }
    }
    let mut total = |name: &str, value: fn(&Floor) -> Bytes, meaning: &str| {
        rows.push([name.into(), value(peak).to_string(), value(last).to_string(), meaning.into()]);
    };
    total("= floor", |floor| floor.bytes, "what stays, whatever reclaim does");
    total("  usage", |floor| floor.usage, "memory.current");
    total("  reclaimable", |floor| floor.reclaimable, "clean cache and what swap can take");
    table(2, [Align::Left, Align::Right, Align::Right, Align::Left], &rows)
}

/// The headroom by term.
pub(super) fn terms(headroom: &Headroom) -> String {
    let line = |term: &Term| [format!("  {}", term.name), term.bytes.to_string(), term.meaning.into()];
    let mut rows: Vec<_> = headroom.list().iter().map(line).collect();
    rows.push(["= headroom".into(), headroom.bytes.to_string(), String::new()]);
    table(2, [Align::Left, Align::Right, Align::Left], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::json,
        trace::{Kind, fixture, replay},
    };
    use enforcer_gate::PressureKiller;
    use std::{convert::Infallible, ffi::OsStr, os::unix::ffi::OsStrExt as _};

    fn committed() -> Certificate {
        let entries = (2..).zip(fixture::shrink()).map(Ok::<_, Infallible>);
        replay(&fixture::header(Kind::Shrink), entries).expect("replays").certificate.expect("an end")
    }

    #[test]
    fn people_find_what_they_look_for() {
        let text = render(Path::new("a/b"), &committed());
        for line in [
            "a/b: 128Mi -> 64Mi\n",
            "  verdict       committed\n",
            "  memory.high   max as found; brake 60Mi\n",
            "  stall added   some 0us of 2s, full 0us of 1s (budget)\n",
            "  events        none\n",
            "    anon         20Mi  20Mi  anonymous memory that swap can't take\n",
            "  = floor        20Mi  20Mi  what stays, whatever reclaim does\n",
            "  headroom at 64Mi (the greatest counts)\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        assert!(!text.contains("hugetlb"), "a term of nothing is left out: {text}");
    }

    #[test]
    fn hostile_names_reach_neither_terminal_nor_script() {
        let hostile = "\u{1b}[2J\u{7}\r\n\u{202e}\u{9b}\"\\".repeat(500);
        let mut certificate = committed();
        certificate.notes = vec![hostile.clone()];
        let killer = PressureKiller { pid: 1, comm: hostile.clone(), cgroup: hostile.clone() };
        certificate.verdict = Verdict::Refused(Reason::PressureKiller(killer));
        let raw = OsStr::from_bytes(b"\xff\x1b[2J\n");
        let text = render(Path::new(raw), &certificate);
        assert!(text.contains("--allow-pressure-killer"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text:?}");
        assert!(text.lines().all(|line| line.len() < 1200), "{text}");
        let script = json::line(&certificate);
        assert!(script.trim_end().bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        assert_eq!(serde_json::from_str::<Certificate>(&script).expect("is JSON"), certificate);
    }
}
