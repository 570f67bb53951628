//! The drift sentinel, as a person runs it.

mod debian;
mod writes;

use enforcer_vm_tests::case::{Case, Tier, nothing};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

const fn smoke(name: &'static str, run: fn()) -> Case {
    Case { name, tier: Tier::Smoke, needs: nothing, run }
}

const fn full(name: &'static str, run: fn()) -> Case {
    Case { name, tier: Tier::Full, needs: nothing, run }
}

const fn debian(name: &'static str, run: fn()) -> Case {
    Case { name, tier: Tier::Debian, needs: nothing, run }
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        smoke("drift::every_limit_file_is_told_with_its_writer", writes::every_file),
        smoke("drift::a_refused_write_is_told_with_its_error", writes::refused),
        smoke("drift::writes_that_overlap_or_do_not_return_are_told_apart", writes::overlapping),
        full("drift::drift_is_told_once_a_value", writes::once_a_value),
        smoke("drift::swap_that_a_memory_update_resets_is_named", writes::swap_reset),
        smoke("drift::a_restart_is_named", writes::restart),
        full("drift::a_limit_is_put_back_and_memory_is_not_taken_away", writes::mended),
        debian("drift::systemd_putting_its_value_back_is_named", debian::reapplied),
        debian("drift::what_systemd_puts_back_is_mended_through_it", debian::mended),
        debian("drift::a_property_that_is_set_is_systemds_write", debian::set_property),
        debian("drift::an_update_by_runc_is_named", debian::runc),
        debian("drift::an_update_by_crun_is_named", debian::crun),
        debian("drift::a_restart_by_runc_is_named", debian::restarted),
        debian("drift::a_quota_that_systemd_rounds_is_no_drift", debian::rounding),
    ]
}

/// `enforcer drift --json` in a process of its own.
struct Sentinel {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Sentinel {
    /// Starts it and waits until it watches every file.
    fn start<I: IntoIterator<Item: AsRef<OsStr>>>(args: I) -> Self {
        let mut child = Command::new("/bin/enforcer")
            .args(["drift", "--json"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start enforcer drift");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut sentinel = Self { child, lines };
        let first = sentinel.next().expect("a first line");
        assert_eq!(first["files"].as_array().map(Vec::len), Some(9), "{first}");
        assert_eq!(first["lost"].as_array().map(Vec::len), Some(0), "{first}");
        sentinel
    }

    /// The next line; `None` at the end.
    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.lines.read_line(&mut line).expect("read a line") == 0 {
            return None;
        }
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}")))
    }

    /// The next line about this file that tells of a change, however many there are about others: systemd writes again
    /// what is there already.
    fn about(&mut self, file: &str) -> Value {
        loop {
            let line = self.next().unwrap_or_else(|| panic!("it ends without a word about {file}"));
            if line["file"] == file && line["cause"] != "unchanged" {
                return line;
            }
        }
    }

    /// Ctrl-C; the lines that still came.
    fn end(mut self) -> Vec<Value> {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT).expect("send a signal");
        let rest = std::iter::from_fn(|| self.next()).collect();
        assert_eq!(self.child.wait().expect("wait for it").code(), Some(0));
        rest
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Compares some fields of a line.
#[track_caller]
fn assert_fields<const N: usize>(line: &Value, fields: [(&str, &str); N]) {
    for (key, value) in fields {
        assert_eq!(line[key], value, "{key} of {line}");
    }
}
