//! The command line: one module a command.
//!
//! Exit codes: 0 done, 1 failed, 2 refused by the gate, 3 and 4 a measurement that is inconclusive or unexplained, 5
//! and 6 a declared overhead that is too small or too large, 64 usage or configuration, 69 the node lacks something, or no agent answers.

mod ask;
mod certificate;
mod check;
mod completions;
mod config;
mod drift;
mod explain;
mod failure;
mod floor;
mod guard;
mod kube;
mod man;
mod oom;
mod options;
mod output;
mod overhead;
mod plugin;
mod ps;
mod record;
mod records;
mod recover;
mod replay;
mod resize;
mod run;
mod screen;
mod shrink;
mod stack;
mod status;
mod stop;
mod switch;
mod table;
mod target;
mod top;

use crate::json;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, error::ErrorKind};
pub use failure::{Exit, Failure};
use nix::sys::signal::{SigHandler, Signal, signal};
use output::{print, printed};
use std::{ffi::OsString, io::Write as _, process::ExitCode};

/// Lowers memory limits of running cgroups without killing what runs in them.
#[derive(Debug, Parser)]
#[command(name = "enforcer", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 refused by the gate, 64 usage or configuration, \
                        69 the node lacks something (enforcer check says what), or no agent answers.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Options),
    Run(run::Options),
    Ps(ps::Options),
    Floor(floor::Options),
    Shrink(shrink::Options),
    Resize(resize::Options),
    Guard(guard::Options),
    Drift(drift::Options),
    Record(record::Options),
    Replay(replay::Options),
    Recover(recover::Options),
    Oom(oom::Options),
    Overhead(overhead::Options),
    Top(top::Options),
    Status(status::Options),
    Explain(explain::Options),
    Pause(switch::PauseOptions),
    Resume(switch::ResumeOptions),
    Reload(switch::ReloadOptions),
    Config(config::Options),
    Completions(completions::Options),
    Man(man::Options),
}

/// Runs the command that `args` name (the program's own name first), and says how it ended.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    // A file over the limit of `ulimit -f` is an error like any other then, and not the end on the spot.
    // SAFETY: no handler of ours is installed.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
    stack::with_own(|| command_line(args))
}

fn command_line(args: Vec<OsString>) -> ExitCode {
    let (args, name) =
        if plugin::is_meant(&args) { (plugin::as_command(args), plugin::TYPED) } else { (args, "enforcer") };
    // Wanted even where the rest of the command line makes no sense.
    let json = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    let parsed = grammar().bin_name(name).try_get_matches_from(args);
    let result = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => run(cli.command),
        Err(error) if error.exit_code() == 0 => {
            // Help and version, asked for.
            output::taken(error.print().and_then(|()| std::io::stdout().flush())).map(|_| Exit::Done)
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            return Exit::Usage.into();
        }
        Err(error) => Err(failure::usage(&error)),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.print(json);
            failure.exit.into()
        }
    }
}

fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Check(options) => check::run(&options),
        Command::Run(options) => run::run(&options),
        Command::Ps(options) => ps::run(&options),
        Command::Floor(options) => floor::run(&options),
        Command::Shrink(options) => shrink::run(&options),
        Command::Resize(options) => resize::run(&options),
        Command::Guard(options) => guard::run(&options),
        Command::Drift(options) => drift::run(&options),
        Command::Record(options) => record::run(&options),
        Command::Replay(options) => replay::run(&options),
        Command::Recover(options) => recover::run(&options),
        Command::Oom(options) => oom::run(&options),
        Command::Overhead(options) => overhead::run(&options),
        Command::Top(options) => top::run(&options),
        Command::Status(options) => status::run(&options),
        Command::Explain(options) => explain::run(&options),
        Command::Pause(options) => switch::pause(&options),
        Command::Resume(options) => switch::resume(&options),
        Command::Reload(options) => switch::reload(&options),
        Command::Config(options) => config::run(&options),
        Command::Completions(options) => completions::run(&options),
        Command::Man(options) => man::run(&options),
    }
}

/// The whole command line as clap knows it: for completions and man pages.
fn grammar() -> clap::Command {
    Cli::command()
}
