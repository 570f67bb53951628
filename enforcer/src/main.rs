//! The `enforcer` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    enforcer::actuate::run_restorer_if_asked();
    enforcer::cli::main(std::env::args_os())
}
