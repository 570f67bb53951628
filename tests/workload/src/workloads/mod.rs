//! The workloads, one module each.

mod anon;
mod bursts;
mod files;
mod forks;
mod gap;
mod kill_loop;
mod mapped;
mod mlock;
mod pressure_killer;
mod probe;
mod steps;
mod threads;

use crate::args::Args;
use crate::life::Life;
use anyhow::Result;

/// One workload.
pub(crate) struct Workload {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    options: &'static str,
    about: &'static str,
    /// Runs it to its end.
    pub(crate) run: fn(Args, Life) -> Result<()>,
}

/// Every workload.
pub(crate) const ALL: &[Workload] = &[
    Workload {
        name: "anon",
        options: "--size S [--start S] [--rate B] [--thp]",
        about: "anonymous memory: all at once, or from --start at so many bytes a second",
        run: anon::anon,
    },
    Workload {
        name: "leak",
        options: "--rate B [--start S] [--size S]",
        about: "grows for ever, or up to --size",
        run: anon::leak,
    },
    Workload {
        name: "bursts",
        options: "--base S --burst S --period T --duty T [--keep] [--report]",
        about: "a burst every period, held for duty; --keep touches kept pages instead of new ones",
        run: bursts::run,
    },
    Workload {
        name: "cache",
        options: "--file PATH --size S [--anon S] [--reread T]",
        about: "clean page cache of a file, read again every --reread",
        run: files::cache,
    },
    Workload {
        name: "dirty",
        options: "--file PATH --size S [--period T]",
        about: "a file kept dirty by rewriting it every period (1 s)",
        run: files::dirty,
    },
    Workload {
        name: "tmpfs",
        options: "--dir PATH --size S [--anon S]",
        about: "a deleted file on a tmpfs",
        run: files::tmpfs,
    },
    Workload { name: "mlock", options: "--size S", about: "locked anonymous memory", run: mlock::run },
    Workload {
        name: "mapped",
        options: "--file PATH --size S [--period T]",
        about: "a mapped file as working set, every page read each period (100 ms)",
        run: mapped::run,
    },
    Workload {
        name: "threads",
        options: "--n N --size S [--period T]",
        about: "N threads with S bytes each, written each period (100 ms)",
        run: threads::run,
    },
    Workload {
        name: "forks",
        options: "--n N [--size S] [--hold T]",
        about: "always up to N children of S bytes that live for --hold (10 ms); stops at the pids limit",
        run: forks::run,
    },
    Workload {
        name: "gap",
        options: "--base S --burst S [--watch DIR] [--on high|max|any] [--delay T] [--poll T]",
        about: "allocates the burst once, --delay after its own limit went down",
        run: gap::run,
    },
    Workload {
        name: "probe",
        options: "[--period T] [--timeout T] [--report]",
        about: "an exec-style probe each period (1 s); time-outs (1 s) and the longest run at the end",
        run: probe::run,
    },
    Workload {
        name: "true",
        options: "",
        about: "ends at once: what the probe runs",
        run: |args, _| Ok(args.finish()?),
    },
    Workload {
        name: "pressure-killer",
        options: "--watch DIR [--full] [--stall T] [--window T]",
        about: "kills the biggest process of the cgroup each time its memory pressure passes stall in window",
        run: pressure_killer::run,
    },
    Workload {
        name: "kill-loop",
        options: "--n N [--parallel N] [--size S] [--thp]",
        about: "children that grow to S (1Gi) until they are killed; counts their wait statuses",
        run: kill_loop::run,
    },
    Workload {
        name: "steps",
        options: "[--file PATH]",
        about: "does what standard input says: grow S, free, lock S, cache S, kill PID, report",
        run: steps::run,
    },
];

/// The list of workloads for people.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "enforcer-workload NAME [OPTIONS]: a process with a known memory behaviour. It prints \"ready BYTES\" once it has what\n\
         it is to have, and goes on until its standard input ends, a signal ends it, or --for has passed.\n\
         S and B are bytes such as 64Mi, T a time such as 500ms or 10s. Exit codes: 0 done, 1 failed, 64 usage.\n\
         common options: --cgroup DIR joins it first; --for T ends after it\n",
    );
    for workload in ALL {
        for part in ["  ", workload.name, " ", workload.options, "\n      ", workload.about, "\n"] {
            text.push_str(part);
        }
    }
    text
}
