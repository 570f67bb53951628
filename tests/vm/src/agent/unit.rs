//! The agent as the service that `deploy/systemd/enforcer.service` makes of it.

use super::acts::{LABEL, limit, wasteful};
use super::uninstall::commands;
use super::{MIB, block_on, cgroup_of, is_under};
use crate::cri::rig::{Containerd, LONG};
use crate::debian::{kills, output, read, run};
use enforcer::admin::model::{ContainerView, PartState, Status};
use enforcer::admin::{Client, SOCKET_DEFAULT};
use enforcer::config::Config;
use enforcer_gate::Bytes;
use enforcer_vm_tests::agent_rig::AT_ONCE;
use enforcer_vm_tests::processes::child_of;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

const UNIT: &str = include_str!("../../../../deploy/systemd/enforcer.service");
const FILE: &str = "/etc/systemd/system/enforcer.service";
const PROGRAM: &str = "/usr/local/bin/enforcer";
const CONFIG: &str = "/etc/enforcer/enforcer.toml";

/// The unit where a node has it. Its end takes away what it made.
struct Unit;

impl Unit {
    fn install() -> Self {
        let unit = Self;
        fs::create_dir_all("/usr/local/bin").expect("make a folder");
        symlink("/bin/enforcer", PROGRAM).expect("link the program");
        fs::create_dir_all("/etc/enforcer").expect("make a folder");
        fs::write(FILE, UNIT).expect("write the unit");
        run("systemctl", ["daemon-reload"]);
        let checked = output("systemd-analyze", ["verify", FILE]);
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(checked.status.success() && !said.contains("enforcer.service:"), "{said}");
        unit
    }
}

fn configure(sets: &[&str]) {
    let sets: Vec<_> = AT_ONCE.iter().chain(sets).chain(&["cri.deadline=60s"]).copied().collect();
    let sets: Vec<_> = sets.into_iter().map(String::from).collect();
    let config = Config::parse("the test's", "", &sets).unwrap_or_else(|errors| panic!("{errors}"));
    fs::write(CONFIG, config.to_toml()).expect("write the configuration");
}

fn property(name: &str) -> String {
    let shown = output("systemctl", ["show", "--value", "--property", name, "enforcer"]);
    String::from_utf8(shown.stdout).expect("text").trim().to_owned()
}

/// Its process.
fn pid() -> u32 {
    property("MainPID").parse().expect("a process")
}

fn log() -> String {
    let said = output("journalctl", ["--unit=enforcer", "--no-pager", "--lines=40"]);
    String::from_utf8_lossy(&said.stdout).into_owned()
}

impl Drop for Unit {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", log());
        }
        drop(output("systemctl", ["stop", "enforcer"]));
        drop(output("systemctl", ["reset-failed", "enforcer"]));
        for file in [FILE, PROGRAM, CONFIG] {
            drop(fs::remove_file(file));
        }
        for folder in ["/etc/enforcer", "/var/lib/enforcer"] {
            drop(fs::remove_dir_all(folder));
        }
        drop(output("systemctl", ["daemon-reload"]));
    }
}

/// Waits until it answers so; while it starts it does not.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut(&Client) -> Option<T>) -> T {
    let client = Client::new(SOCKET_DEFAULT, LONG);
    let began = Instant::now();
    loop {
        if let Some(answer) = ask(&client).await {
            return answer;
        }
        assert!(began.elapsed() < LONG, "{what} is not seen: {}", log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn app(what: &str, is_so: impl Fn(&ContainerView) -> bool) -> ContainerView {
    until(what, async |client| {
        let all = client.containers().await.ok()?;
        all.into_iter().find(|view| view.container == "app").filter(|view| is_so(view))
    })
    .await
}

async fn status(what: &str, is_so: impl Fn(&Status) -> bool) -> Status {
    until(what, async |client| client.status().await.ok().filter(|status| is_so(status))).await
}

/// Started, told to read its configuration again, killed and stopped by systemctl, it does all that it does elsewhere: what
/// the unit takes away from it, it does not need.
pub(super) fn service() {
    block_on(async {
        let mut containerd = Containerd::start().await;
        wasteful(&mut containerd, &[LABEL]).await;
        let unit = Unit::install();
        configure(&["gate.window=600s"]);
        run("systemctl", ["start", "enforcer"]);
        let view = app("the container", |view| view.limit.is_some()).await;
        let cgroup = cgroup_of(&view);
        status("a change that is tried", |status| {
            status.in_flight.iter().any(|flight| flight.state == "trial")
        })
        .await;
        let began = Instant::now();
        while read(&cgroup, "memory.high") == "max" {
            assert!(began.elapsed() < LONG, "there is a brake");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let restorer = child_of(pid()).expect("a restorer");
        // In the middle of a shrink.
        run("systemctl", ["stop", "enforcer"]);
        assert_eq!((limit(&cgroup), read(&cgroup, "memory.high").as_str()), (128 * MIB, "max"));
        assert_eq!(
            ["ActiveState", "Result", "ExecMainStatus"].map(property),
            ["inactive", "success", "0"],
            "{}",
            log()
        );
        assert!(!Path::new(&format!("/proc/{restorer}")).exists() && !Path::new(SOCKET_DEFAULT).exists());

        configure(&["guard.mode=enforce"]);
        run("systemctl", ["start", "enforcer"]);
        // At once, for that is what it has told systemd.
        let answer = output("/bin/enforcer", ["status", "--deadline=60s"]);
        assert!(matches!(answer.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&answer.stderr));
        let lower = app("lower", |view| is_under(view, Bytes::from_mib(64))).await;
        assert!(lower.runtime_limit.is_some(), "{lower:#?}");
        let so = |state| matches!(state, PartState::Ready | PartState::Off);
        let said =
            status("every part", |status| status.parts.iter().all(|part| part.state != PartState::Starting))
                .await;
        assert!(said.parts.iter().all(|part| so(part.state)), "{:#?}", said.parts);
        let refused = fs::write(cgroup.join("memory.max"), "4M").expect_err("it would kill");
        assert_eq!((refused.raw_os_error(), kills(&cgroup).as_str()), (Some(libc::EBUSY), "0"));
        assert_eq!(fs::read_to_string(format!("/proc/{}/oom_score_adj", pid())).expect("reads"), "-999\n");

        // A configuration with an error is refused, and the one in force stays.
        fs::write(CONFIG, "[agent]\npaused = maybe\n").expect("write it");
        let refused = output("systemctl", ["reload", "enforcer"]);
        assert!(!refused.status.success() && property("ActiveState") == "active", "{}", log());
        assert!(!status("the old configuration", |_| true).await.paused);
        configure(&["guard.mode=enforce", "agent.paused=true"]);
        run("systemctl", ["reload", "enforcer"]);
        assert!(status("the new configuration", |_| true).await.paused);

        // Killed, it is started again.
        let killed = pid();
        kill(Pid::from_raw(killed.cast_signed()), Signal::SIGKILL).expect("it runs");
        let again = status("another one", |status| status.pid != killed).await;
        assert_eq!((pid(), property("NRestarts").as_str()), (again.pid, "1"));
        run("systemctl", ["stop", "enforcer"]);
        assert_eq!(property("Result"), "success", "{}", log());

        // With a wrong configuration it is not.
        fs::write(CONFIG, "[agent]\npaused = maybe\n").expect("write it");
        assert!(!output("systemctl", ["start", "enforcer"]).status.success(), "{}", log());
        assert_eq!(property("ActiveState"), "failed", "{}", log());
        assert_eq!(["ExecMainStatus", "NRestarts"].map(property), ["64", "0"]);

        // By the documented commands it goes, with all that it had.
        for command in commands().concat() {
            run("sh", ["-c", command]);
        }
        for path in [FILE, PROGRAM, "/etc/enforcer", "/var/lib/enforcer", "/run/enforcer"] {
            assert!(!Path::new(path).exists(), "{path}");
        }
        assert_eq!(property("LoadState"), "not-found");
        drop(unit);
        containerd.end().await;
    });
}
