//! The `enforcer` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    enforcer::actuate::run_restorer_if_asked();
    // Where it is refused a capability is lacking, which `enforcer check` names, as do those commands that need it.
    let _ = enforcer::cgroup::look_as_process_1();
    enforcer::cli::main(std::env::args_os())
}
