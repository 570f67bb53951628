//! Tests that need a real kernel; run inside the VM.
//!
//! `ENFORCER_TIER=smoke` leaves out what runs on the default kernel only; `debian` runs only what needs a Debian.
//! `ENFORCER_SHARE=1/2` runs the first of two shares. `ENFORCER_LONG=1` runs what takes long as well. The one argument
//! `verifier` prints what the kernel's verifier counts in each program instead; `pods COMMAND`
//! runs a command beside two pods.

mod actuate;
mod agent;
mod bpf;
mod cgroup;
mod cli;
mod cri;
mod debian;
mod disk;
mod drift;
mod guard;
mod guest;
mod long;
mod oom;
mod overhead;
mod pods;
mod probe;
mod process;
mod resize;
mod shrink;
mod strain;
mod verifier;

use enforcer_vm_tests::case;

fn main() {
    enforcer::actuate::run_restorer_if_asked();
    actuate::hold_if_asked();
    if std::env::args().nth(1).is_some_and(|word| word == "verifier") {
        return verifier::print();
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("pods", command)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        pods::beside(command);
    }
    let mut cases = Vec::new();
    cases.extend(guest::cases());
    cases.extend(actuate::cases());
    cases.extend(cli::cases());
    cases.extend(cri::cases());
    cases.extend(agent::cases());
    cases.extend(resize::cases());
    cases.extend(cgroup::cases());
    cases.extend(probe::cases());
    cases.extend(guard::cases());
    cases.extend(drift::cases());
    cases.extend(oom::cases());
    cases.extend(overhead::cases());
    cases.extend(shrink::cases());
    cases.extend(shrink::bench_cases());
    case::run(cases, &long::NAMES, case::Selection::asked(), case::Share::asked());
}
