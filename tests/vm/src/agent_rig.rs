//! A running agent (`enforcer run`), and what it says. Panics where it does not do as it should.

use crate::processes::child_of;
use enforcer::actuate::STATE_DIR_DEFAULT;
use enforcer::admin::model::{ContainerView, Part, PartState, Status};
use enforcer::admin::{Client, SOCKET_DEFAULT};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::cell::RefCell;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What anything may take under emulation that is waited for.
pub const LONG: Duration = Duration::from_mins(3);
const ENFORCER: &str = "/bin/enforcer";

/// A schedule with nothing to wait for, and short states of the gate.
pub const AT_ONCE: [&str; 14] = [
    "agent.reading_interval=200ms",
    "policy.interval=1s",
    "policy.interval_max=2s",
    // A program must have begun by then, also on a slow machine.
    "policy.window=15s",
    "policy.gain_min=1Mi",
    "policy.floor=1Mi",
    "policy.margin_percent=0",
    "policy.margin_min=4Mi",
    "policy.changes_per_hour=1000",
    "policy.pressure_avg10=100",
    "gate.observe=500ms",
    "gate.window=2s",
    "gate.watch=500ms",
    "gate.budget=3s",
];

/// An agent with folders and a socket of its own.
#[derive(Debug)]
pub struct Agent {
    folder: TempDir,
    socket: PathBuf,
    child: Child,
    lines: Receiver<Value>,
    /// What it has said up to now.
    said: RefCell<Vec<Value>>,
}

fn command(folder: &Path, file: Option<&Path>, sets: &[&str]) -> Command {
    let mut command = Command::new(ENFORCER);
    command.args(["run", "--json"]);
    if let Some(file) = file {
        command.arg("--config").arg(file);
    }
    let at = |name: &str| folder.join(name).display().to_string();
    let own = [
        format!("agent.state_dir={}", at("state")),
        format!("agent.admin_socket={}", at("admin.sock")),
        format!("oom.store={}", at("oom")),
        format!("guard.store={}", at("guard")),
        "http.listen=127.0.0.1:9464".into(),
        "cri.deadline=60s".into(),
    ];
    let sets = own.iter().map(String::as_str).chain(sets.iter().copied());
    command.args(sets.flat_map(|set| ["--set", set]));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn launch(folder: &Path, file: Option<&Path>, sets: &[&str]) -> (Child, Receiver<Value>) {
    let mut child = command(folder, file, sets).spawn().expect("start it");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        for line in out.lines() {
            let line = line.expect("text");
            let value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if tell.send(value).is_err() {
                return;
            }
        }
    });
    (child, lines)
}

/// What a page of the node's agent says, with its status.
pub fn page(path: &str) -> (u16, String) {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect("127.0.0.1:9464").expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("asks");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, body.to_owned())
}

impl Agent {
    /// Starts it and waits until it runs.
    pub fn start(sets: &[&str]) -> Self {
        Self::launched(None, sets)
    }

    /// The same with the folders and the socket that one without a configuration has.
    pub fn in_default_places(sets: &[&str]) -> Self {
        let own = [
            format!("agent.state_dir={STATE_DIR_DEFAULT}"),
            format!("agent.admin_socket={SOCKET_DEFAULT}"),
            format!("oom.store={}", enforcer::oom::STORE_DEFAULT),
            format!("guard.store={}", enforcer::guard::log::STORE_DEFAULT),
        ];
        let sets: Vec<_> = own.iter().map(String::as_str).chain(sets.iter().copied()).collect();
        let mut agent = Self::launched(None, &sets);
        agent.socket = SOCKET_DEFAULT.into();
        agent
    }

    /// The same with a file, over which `sets` are.
    pub fn start_with(file: &Path, sets: &[&str]) -> Self {
        Self::launched(Some(file), sets)
    }

    fn launched(file: Option<&Path>, sets: &[&str]) -> Self {
        let folder = tempfile::tempdir_in("/run").expect("a folder");
        let (child, lines) = launch(folder.path(), file, sets);
        let socket = folder.path().join("admin.sock");
        let agent = Self { folder, socket, child, lines, said: RefCell::default() };
        agent.heard("that it runs", |said| said["text"] == "enforcer runs");
        agent
    }

    /// The same, and its inventory is current.
    pub fn ready(sets: &[&str]) -> Self {
        let agent = Self::start(sets);
        agent.is_current();
        agent
    }

    /// Starts it anew, in the same folders.
    pub fn again(&mut self, sets: &[&str]) {
        (self.child, self.lines) = launch(self.folder.path(), None, sets);
        self.said.borrow_mut().clear();
        self.heard("that it runs", |said| said["text"] == "enforcer runs");
    }

    /// Waits until its inventory is current, and its kernel programs are loaded or can't be.
    pub fn is_current(&self) {
        self.heard("the inventory", |said| text(said).starts_with("the inventory is current"));
        let began = Instant::now();
        loop {
            let parts = self.asked_elsewhere().parts;
            let loads = |part: &Part| ["kernel", "guard"].contains(&part.name.as_str());
            if !parts.iter().any(|part| loads(part) && part.state == PartState::Starting) {
                return;
            }
            assert!(began.elapsed() < LONG, "{parts:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A file or folder of its own.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The restorer of a change in flight: a child of its own.
    pub fn restorer(&self) -> Option<u32> {
        child_of(self.child.id())
    }

    /// Waits until it has said such a thing, and takes it: what is waited for next is another one.
    #[track_caller]
    pub fn heard(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let found = self.said.borrow().iter().position(&is_it);
            if let Some(found) = found {
                return self.said.borrow_mut().remove(found);
            }
            let left = LONG.saturating_sub(began.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.said.borrow_mut().push(line),
                Err(error) => panic!("{what} is not said: {error}; but {:#?}", self.said.borrow()),
            }
        }
    }

    /// What it has said up to now and nobody has taken.
    pub fn said_so_far(&self) -> Vec<Value> {
        self.said.borrow_mut().extend(self.lines.try_iter());
        self.said.borrow().clone()
    }

    /// Who asks over its admin socket.
    pub fn client(&self) -> Client {
        Client::new(self.socket.clone(), LONG)
    }

    /// How it is, asked from no runtime or from within one.
    fn asked_elsewhere(&self) -> Status {
        let client = self.client();
        let ask = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(client.status()).expect("it answers")
        };
        std::thread::spawn(ask).join().expect("asks")
    }

    /// How it is, as it says.
    pub async fn status(&self) -> Status {
        self.client().status().await.expect("it answers")
    }

    /// Waits until a container is seen so.
    pub async fn seen(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&ContainerView) -> bool,
    ) -> ContainerView {
        let began = Instant::now();
        loop {
            let all = self.client().containers().await.expect("it answers");
            let found = all.iter().find(|view| view.container == name);
            match found {
                Some(view) if is_so(view) => return view.clone(),
                _ => assert!(began.elapsed() < LONG, "{name} is not seen {what}: {found:#?}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A command of this agent's: exit code, standard output, standard error.
    pub fn ask(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let socket = self.socket.display().to_string();
        let words = words.iter().copied().chain(["--socket", &socket, "--deadline", "60s"]);
        let answer = Command::new(ENFORCER).args(words).stdin(Stdio::null()).output().expect("start it");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (answer.status.code(), text(answer.stdout), text(answer.stderr))
    }

    /// What a page says, with its status.
    pub fn page(&self, path: &str) -> (u16, String) {
        page(path)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it runs");
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        self.child.wait().expect("wait for it")
    }

    /// SIGTERM, and it ends well.
    pub fn end(mut self) {
        self.signal(Signal::SIGTERM);
        let status = self.ended();
        assert!(status.success(), "{status}; {:#?}", self.said.borrow());
        assert!(!self.path("admin.sock").exists());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.child.kill());
        // It ends only when a disk answers that a test has hang: where that failed it still hangs.
        if !std::thread::panicking() {
            drop(self.child.wait());
        }
    }
}

/// What a line says.
pub fn text(said: &Value) -> &str {
    said["text"].as_str().expect("text")
}

/// Whether a line is of this kind and says so.
pub fn says(said: &Value, kind: &str, part: &str) -> bool {
    said["kind"] == kind && text(said).contains(part)
}
