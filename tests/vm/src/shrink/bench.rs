//! Benchmarks in their short form: what they demand must hold.

use enforcer_vm_tests::case::{Case, Tier, file};
use serde_json::Value;
use std::process::{Command, Stdio};

const BENCH: &str = "/bin/enforcer-bench";

pub(super) fn cases() -> Vec<Case> {
    let full = |name, run| Case { name, tier: Tier::Full, needs: || file(BENCH), run };
    vec![
        full("bench::no_kill_goes_unrecorded", all_recorded),
        full("bench::drops_are_counted_exactly", drops),
        full("bench::adversarial_shrinks", adversary),
    ]
}

/// Runs it to its end; its one result.
fn bench(words: &[&str]) -> Value {
    let output = Command::new(BENCH).args(words).stdin(Stdio::null()).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    for line in text.lines().filter(|line| !line.starts_with("RESULT ")) {
        println!("{line}");
    }
    assert!(output.status.success(), "{words:?}: {}\n{text}{error}", output.status);
    let result = text.lines().find_map(|line| line.strip_prefix("RESULT ")?.split_once(' '));
    let (_, json) = result.unwrap_or_else(|| panic!("no result: {text}"));
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// Records, drops and kills by two truths.
fn counts(report: &Value) -> [u64; 4] {
    let of = |name: &str| report["counted"][name].as_u64().unwrap_or_else(|| panic!("no {name}: {report}"));
    [of("records"), of("dropped"), of("oom_kill"), of("died")]
}

fn all_recorded() {
    let [records, dropped, kills, died] = counts(&bench(&["oom", "--latency", "30", "--count", "100"]));
    assert_eq!((records, dropped, kills, died), (100, 0, 100, 100));
}

fn drops() {
    let words = ["oom", "--latency", "5", "--count", "500", "--ring", "4096", "--late"];
    let [records, dropped, kills, died] = counts(&bench(&words));
    assert!(dropped > 0 && records > 0, "{records} records, {dropped} drops");
    assert_eq!((records + dropped, kills), (died, died));
}

fn adversary() {
    // Refusing everything must fail here, and so must one kill, and a run that is too short for the stale check to fail
    // in. The full share of accepted shrinks is the full run's to show: on a busy host the guest misses deadlines, and the
    // gate then refuses, rightly.
    bench(&["adversary", "--shrinks", "48", "--seconds", "150", "--judge", "--accept", "0.5"]);
}
