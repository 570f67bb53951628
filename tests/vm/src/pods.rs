//! Something to try the agent on (docs/agent.md): a containerd with two pods, and a command beside them.

use crate::agent::{MIB, block_on, holds, memory};
use crate::cri::rig::{Containerd, NAMESPACE};
use std::process::{Command, exit};

/// The pods' names, and what makes their containers.
const PODS: [(&str, &str); 2] = [("web", "runc"), ("job", "crun")];

/// Runs `command` beside them, and ends as it does.
pub(crate) fn beside(command: &[String]) -> ! {
    let Some((program, words)) = command.split_first() else {
        eprintln!("pods: name a command to run beside them");
        exit(64);
    };
    let mut code = 1;
    block_on(async {
        let mut containerd = Containerd::start().await;
        let job = holds(20);
        let job: Vec<_> = job.iter().map(String::as_str).collect();
        for (name, handler) in PODS {
            containerd.run_pod(name, handler).await;
            containerd.run_job("app", &job, memory(128 * MIB)).await;
            eprintln!("pod/{NAMESPACE}/{name}:app runs under {handler}, and uses 20Mi of 128Mi");
        }
        let ended = Command::new(program).args(words).status();
        code = ended.unwrap_or_else(|error| panic!("{program}: {error}")).code().unwrap_or(1);
        containerd.end().await;
    });
    exit(code)
}
