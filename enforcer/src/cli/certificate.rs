//! A certificate as a table for people. No I/O.

use super::table::{Align, table};
use crate::{cgroup::shown, quantity::exact};
use enforcer_gate::{Bytes, Certificate, Floor, Headroom, Micros, Peak, Reason, Term, Verdict};
use std::{fmt::Write as _, path::Path};

/// Whether a killer would act on this cgroup is not visible from outside.
const LET_THROUGH: &str = "--allow-pressure-killer, if it leaves this cgroup and those above alone \
                           (of systemd-oomd, oomctl lists what it watches)";

/// The whole certificate.
pub(super) fn render(cgroup: &Path, certificate: &Certificate) -> String {
    let mut text = format!("{}: {}\n", shown(cgroup), heading(certificate));
    // There is nothing to weigh.
    if matches!(certificate.verdict, Verdict::Refused(Reason::NotAShrink { .. })) {
        text.push_str(&table(2, [Align::Left; 2], &[["verdict".into(), certificate.verdict.to_string()]]));
    } else {
        evidence(&mut text, certificate);
    }
    // Writing to a String can't fail, here and below.
    for note in &certificate.notes {
        let _ = writeln!(text, "  note: {}", shown(note));
    }
    if certificate.notes_dropped > 0 {
        let _ = writeln!(text, "  note: {} more did not fit", certificate.notes_dropped);
    }
    text
}

/// What was asked for, and what became of the limit.
fn heading(certificate: &Certificate) -> String {
    let target = exact(certificate.target);
    let Some(found) = certificate.previous_max else { return format!("asked: {target}") };
    let became = match &certificate.verdict {
        Verdict::Committed => return format!("{found} -> {target}"),
        // The verdict says what is there instead.
        Verdict::Failed(_)
        | Verdict::Refused(Reason::Gone | Reason::LimitWritten { .. })
        | Verdict::RolledBack(Reason::Gone | Reason::LimitWritten { .. }) => {
            return format!("asked: {found} -> {target}");
        }
        Verdict::Feasible => "a dry run, left at",
        Verdict::Refused(_) if certificate.dry_run => "a dry run, left at",
        Verdict::Refused(_) => "left at",
        Verdict::RolledBack(_) => "back at",
    };
    format!("asked: {found} -> {target}, {became} {found}")
}

/// So many readings.
pub(super) fn readings(count: u64) -> String {
    if count == 1 { "1 reading".into() } else { format!("{count} readings") }
}

/// The safe minimum, and whether that is all that is needed.
fn minimum(safe: Bytes, certificate: &Certificate) -> String {
    let safe = format!("{safe} ({})", exact(safe));
    if !certificate.safe_minimum_is_lower_bound {
        return safe;
    }
    let more = if matches!(certificate.verdict, Verdict::RolledBack(Reason::Growth { .. })) {
        format!(
            "and still growing when it was taken back, {}/s at the fastest",
            certificate.growth_per_second
        )
    } else {
        "and perhaps more: it was held back until it was taken back".into()
    };
    format!("at least {safe}, {more}")
}

fn evidence(text: &mut String, certificate: &Certificate) {
    let Certificate { target, policy, stall, deltas, .. } = certificate;
    let mut rows = vec![["verdict".into(), certificate.verdict.to_string()]];
    let mut row = |name: &str, value: String| rows.push([name.into(), value]);
    if let Verdict::Refused(Reason::PressureKiller(_)) = certificate.verdict {
        row("what to do", LET_THROUGH.into());
    }
    if let Some(safe) = certificate.safe_minimum {
        row("safe minimum", minimum(safe, certificate));
    }
    if let Some(high) = certificate.previous_high {
        let brake = certificate.brake.map_or("none".into(), |brake| brake.to_string());
        row("memory.high", format!("{high} as found; brake {brake}"));
    }
    if let Some(Peak { window, samples, before_end, .. }) = certificate.peak {
        let peak = if before_end == Micros::ZERO {
            "the floor was highest at the last one".into()
        } else {
            format!("the floor was highest {before_end} before the last one")
        };
        row("observed", format!("{window}, {}; {peak}", readings(samples)));
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
    if let (Some(headroom), Some(peak)) = (&certificate.headroom, &certificate.peak) {
        let needed = peak.floor.bytes.saturating_add(headroom.bytes);
        // Writing to a String can't fail.
        let _ =
            writeln!(text, "  headroom at {}: {}, with the floor {needed}", exact(*target), headroom.bytes);
    }
    if let (Some(safe), Some(peak)) = (certificate.safe_minimum, &certificate.peak) {
        let headroom = Headroom::at(safe, certificate.growth_per_second, policy);
        text.push_str(&sum(&peak.floor, &headroom, safe));
    }
}

/// How floor and headroom make the safe minimum.
pub(super) fn sum(peak: &Floor, headroom: &Headroom, safe: Bytes) -> String {
    format!(
        "  headroom at the safe minimum (the greatest counts)\n{}  \
         safe minimum {safe} ({}) = floor {} + headroom {}, up to whole pages\n",
        terms(headroom),
        exact(safe),
        peak.bytes,
        headroom.bytes
    )
}

/// A floor by term, at the reading where it was highest and at the last reading.
pub(super) fn floor(peak: &Floor, last: &Floor) -> String {
    let [at_peak, at_last] = [peak, last].map(|floor| floor.terms.list());
    let mut rows = vec![["floor".into(), "at the floor's peak".into(), "last".into(), String::new()]];
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
fn terms(headroom: &Headroom) -> String {
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
    use enforcer_gate::{Limit, PressureKiller};
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
            "  floor          at the floor's peak  last\n",
            "    anon                        20Mi  20Mi  anonymous memory that swap can't take\n",
            "  = floor                       20Mi  20Mi  what stays, whatever reclaim does\n",
            "  headroom at 64Mi: 5.8Mi, with the floor 25.8Mi\n",
            "  headroom at the safe minimum (the greatest counts)\n",
            "  = headroom  2.3Mi\n",
            "  safe minimum 22.3Mi (22784Ki) = floor 20Mi + headroom 2.3Mi, up to whole pages\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        assert!(!text.contains("hugetlb"), "a term of nothing is left out: {text}");
    }

    #[test]
    fn nobody_reads_as_done_what_was_not() {
        let heading = |verdict: Verdict| {
            let certificate = Certificate { verdict, ..committed() };
            super::heading(&certificate)
        };
        assert_eq!(heading(Verdict::Feasible), "asked: 128Mi -> 64Mi, a dry run, left at 128Mi");
        let refused = Verdict::Refused(Reason::BelowSafeMinimum);
        assert_eq!(heading(refused), "asked: 128Mi -> 64Mi, left at 128Mi");
        let dry =
            Certificate { verdict: Verdict::Refused(Reason::BelowSafeMinimum), dry_run: true, ..committed() };
        assert_eq!(super::heading(&dry), "asked: 128Mi -> 64Mi, a dry run, left at 128Mi");
        let rolled_back = Verdict::RolledBack(Reason::StallBudget);
        assert_eq!(heading(rolled_back), "asked: 128Mi -> 64Mi, back at 128Mi");
        assert_eq!(heading(Verdict::RolledBack(Reason::Gone)), "asked: 128Mi -> 64Mi");
        assert_eq!(heading(Verdict::Failed(Reason::Cancelled)), "asked: 128Mi -> 64Mi");
    }

    #[test]
    fn what_is_no_shrink_takes_two_lines() {
        let current = Limit::Bytes(Bytes::from_mib(128));
        let verdict = Verdict::Refused(Reason::NotAShrink { current });
        let text = render(Path::new("a"), &Certificate { verdict, ..committed() });
        assert_eq!(
            text,
            "a: asked: 128Mi -> 64Mi, left at 128Mi\n  \
             verdict  refused: the target is not below the limit in force (128Mi)\n"
        );
    }

    #[test]
    fn a_minimum_that_growth_was_cut_off_at_is_a_lower_bound() {
        let text = |verdict: Verdict| {
            let mut certificate = committed();
            certificate.growth_per_second = Bytes::from_mib(61);
            certificate.safe_minimum_is_lower_bound = verdict.held_back();
            certificate.verdict = verdict;
            render(Path::new("a"), &certificate)
        };
        let growth = text(Verdict::RolledBack(Reason::Growth { floor: Bytes::from_mib(20) }));
        let says = "(22784Ki), and still growing when it was taken back, 61Mi/s at the fastest\n";
        assert!(growth.contains("  safe minimum  at least 22.3Mi ") && growth.contains(says), "{growth}");
        let stalled = text(Verdict::RolledBack(Reason::StallBudget));
        assert!(stalled.contains("at least 22.3Mi (22784Ki), and perhaps more"), "{stalled}");
        let refused = text(Verdict::Refused(Reason::BelowSafeMinimum));
        assert!(!refused.contains("at least"), "{refused}");
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
