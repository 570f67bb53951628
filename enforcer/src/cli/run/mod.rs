//! `enforcer run`: the node agent.

mod line;

use super::{Exit, Failure, failure, options::Json, output, stop::end_at_once};
use crate::{
    actuate::ActuateError,
    agent::{Agent, End, Source, StartError},
    config::{Config, Loaded},
    node::Need,
};
use std::{cell::RefCell, path::PathBuf, rc::Rc};

const WHAT: &str = "can't run the agent on";
const NODE: &str = "this node";
const NEEDS: [Need; 4] = [Need::Root, Need::CgroupV2Memory, Need::WritableCgroups, Need::Btf];

const AFTER_HELP: &str = "\
Where things are, each by a key of the configuration (enforcer config default prints all of them):
  /etc/enforcer/enforcer.toml  the configuration, read where it is there; --config names another
  /run/enforcer/admin.sock     agent.admin_socket: where status, top, explain, pause, resume and reload ask
  127.0.0.1:9464               http.listen: /metrics, /healthz and /readyz
  /var/lib/enforcer            agent.state_dir: journals of what is in flight
  /var/lib/enforcer/oom        oom.store: records of OOM kills (enforcer oom)
  /var/lib/enforcer/guard      guard.store: verdicts of the guard (enforcer guard log)
  cri.socket                   the container runtime; the first of the usual ones where it is not set

Exit codes: 0 told to end, and all is settled; 1 it could not start (another agent runs, say), lost the kernel programs, or
did not settle all in time; 64 wrong configuration or usage; 69 this node lacks something (enforcer check says what).";

/// Runs the node agent: knows every pod and container, records OOM kills, tells of drift, guards and shrinks as the policy says
///
/// Runs in the foreground and prints a line for each thing that happens; ends by SIGTERM or Ctrl-C once what is in flight
/// is settled. SIGHUP (or enforcer reload) reads the configuration anew. By default it changes nothing: a pod's label or the
/// configuration's policy.default opts in. enforcer status, top, explain, pause and resume talk to it.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Options {
    /// The configuration [default: /etc/enforcer/enforcer.toml, where that is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    set: super::config::Set,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let (config, loaded) = match Config::load(options.config.as_deref(), &options.set.set) {
        Ok(loaded) => loaded,
        Err(errors) => {
            return Ok(super::config::wrong("can't run with this configuration", &errors, options.json.json));
        }
    };
    failure::require(WHAT, NODE, &NEEDS)?;
    let as_json = options.json.json;
    let io = |error: std::io::Error| Failure::new(Exit::Failed, WHAT, NODE, &error, "");
    raise_descriptors();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io)?;
    let screen = Rc::new(RefCell::new(output::screen(as_json).map_err(io)?));
    for warning in &loaded.warnings {
        output::aside(&format!("warning: {warning}\n"));
    }
    let tell = {
        let screen = Rc::clone(&screen);
        // The loop must not wait for whoever reads.
        Box::new(move |happening: &_| {
            let mut screen = screen.borrow_mut();
            screen.tell_left_out();
            screen.show(line::line(happening, as_json));
        })
    };
    let source = source(options, &loaded);
    let ended = tokio::task::LocalSet::new().block_on(&runtime, async {
        let agent = Agent::start(config, source, tell).await.map_err(|error| explain(&error))?;
        // It answers. Where no service manager waits for that, or it does not listen, nothing is different.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        Ok(Box::pin(agent.run()).await)
    });
    end_at_once();
    // What was asked of threads that hang is not waited for.
    runtime.shutdown_background();
    let exit = match ended {
        Ok(End::Stopped) => Ok(Exit::Done),
        Ok(End::Late(what)) => Err(Failure::new(
            Exit::Failed,
            "did not end in time",
            "the agent",
            &what,
            "enforcer recover settles what is left",
        )),
        Ok(End::Kernel(why)) => Err(Failure::new(
            Exit::Failed,
            "lost the kernel programs",
            "the agent",
            &why,
            "start it again; enforcer check says what this node has",
        )),
        Err(failure) => Err(failure),
    };
    let told = match Rc::try_unwrap(screen) {
        Ok(screen) => output::end(screen.into_inner(), "", Exit::Done),
        // The agent has it still, which it does not once it has ended.
        Err(_) => Ok(Exit::Done),
    };
    exit.and(told)
}

fn source(options: &Options, loaded: &Loaded) -> Source {
    // One that is named must be there at a reload too; the default one may come and go.
    let file = options.config.is_some().then(|| loaded.file.clone()).flatten();
    Source { file, version: loaded.version, overrides: options.set.set.clone() }
}

/// Each change in flight, and each container while it is read, takes some.
fn raise_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // What it has is enough for a small node.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn explain(error: &StartError) -> Failure {
    match error {
        StartError::Admin(error) => Failure::new(Exit::Failed, WHAT, NODE, error, error.advice()),
        StartError::Cgroup(error) => Failure::cgroup(WHAT, NODE, error),
        StartError::State(error) => state(error),
        StartError::Another(error) => {
            let end = error.pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
            let todo = format!(
                "one agent a node, whatever its socket and its folders: end the other one first{end}, systemctl stop enforcer \
                 where it is the service"
            );
            Failure::new(Exit::Failed, WHAT, "this node", error, &todo)
        }
        StartError::Http { .. } => {
            let todo = "name another address with --set http.listen=ADDRESS:PORT, or \"\" for none";
            Failure::new(Exit::Failed, WHAT, NODE, &failure::chain(error), todo)
        }
        StartError::Io { .. } => Failure::new(Exit::Failed, WHAT, NODE, &failure::chain(error), ""),
    }
}

fn state(error: &ActuateError) -> Failure {
    failure::actuate(WHAT, NODE, error)
}
