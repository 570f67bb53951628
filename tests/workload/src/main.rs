//! Workloads with a known memory behaviour, for tests and the demo.
//!
//! Each prints one line `ready <bytes>` when its initial state is reached, so that a test waits for an
//! event and never for a while. It then goes on until its standard input ends, a signal ends it, or
//! `--for` has passed. Exit codes: 0 done, 1 failed, 64 usage.

mod args;
mod cgroup;
mod life;
mod memory;
mod say;
mod workloads;

use args::{Args, Usage};
use life::Life;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Its own name may be anything, and is nobody's concern here.
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let words: Vec<_> = words.collect();
    if words.iter().any(|word| matches!(word.as_str(), "--help" | "-h")) {
        // Whoever reads may have gone.
        let _ = std::io::stdout().write_all(workloads::help().as_bytes());
        return ExitCode::SUCCESS;
    }
    let (name, args) = match Args::parse(words.into_iter()) {
        Ok(parsed) => parsed,
        Err(usage) => return refuse(&usage),
    };
    let Some(workload) = workloads::ALL.iter().find(|workload| workload.name == name) else {
        return refuse(&Usage(format!("unknown workload {name:?}\n{}", workloads::help())));
    };
    match run(workload, args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(usage) = error.downcast_ref::<Usage>() {
                refuse(usage)
            } else {
                eprintln!("enforcer-workload {name}: {error:#}");
                ExitCode::FAILURE
            }
        }
    }
}

fn run(workload: &workloads::Workload, mut args: Args) -> anyhow::Result<()> {
    let cgroup = args.text("cgroup")?;
    let life = Life::new(args.span("for")?);
    if let Some(cgroup) = &cgroup {
        cgroup::join(cgroup)?;
    }
    (workload.run)(args, life)
}

fn refuse(usage: &Usage) -> ExitCode {
    eprintln!("enforcer-workload: {usage}");
    ExitCode::from(64)
}
