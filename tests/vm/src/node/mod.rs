//! A node whose container runtime is a script: every container is a real process in a real cgroup, named as containerd
//! names it under systemd, and the CRI calls about it are answered over a real socket. For as many containers as no real
//! runtime bears in an emulated guest.

mod books;
mod info;
mod process;
mod tree;

use crate::scratch::MOUNT;
use books::Books;
use enforcer::cri::message::LinuxContainerResources;
use enforcer_test_cri::Server;
use process::Process;
pub use process::Program;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Namespace of all pods.
pub const NAMESPACE: &str = "testing";

/// The node. What it made goes with it. Panics where the kernel refuses something: there is no test without it.
#[derive(Debug)]
pub struct Node {
    books: Arc<Mutex<Books>>,
    socket: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Pods and containers that were ever made.
    made: u64,
}

impl Node {
    /// Without a pod. The runtime answers on a thread of its own.
    pub fn start() -> Self {
        tree::make_parent();
        let books = Arc::new(Mutex::new(Books::default()));
        let (stop, stopped) = oneshot::channel();
        let (tell, socket) = std::sync::mpsc::channel();
        let script = Arc::clone(&books);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let server = Server::start(move |call, request| locked(&script).reply(call, request));
                tell.send(server.socket()).expect("is waited for");
                // The node going is as good.
                let _ = stopped.await;
            });
        });
        let socket = socket.recv().expect("the runtime listens");
        Self { books, socket, stop: Some(stop), thread: Some(thread), made: 0 }
    }

    /// Where the runtime listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// A pod with these labels, and its sandbox with a process of its own. Its id.
    pub fn run_pod(&mut self, name: &str, labels: &[(&str, &str)]) -> String {
        let (id, uid) = (self.new_id(), format!("00000000-0000-4000-8000-{:012}", self.made));
        let pod = tree::pod(&uid);
        tree::make(&pod);
        let scope = tree::make_scope(&pod, &id);
        let process = Process::start(&scope, Program::Sleeps);
        self.locked().add_pod(&id, name, &uid, labels, process);
        id
    }

    /// A container that runs, in a pod, with these limits. Its id.
    pub fn run(
        &mut self,
        sandbox: &str,
        name: &str,
        limits: &LinuxContainerResources,
        program: Program,
    ) -> String {
        let id = self.new_id();
        let uid = self.locked().uid(sandbox);
        self.locked().add(&id, sandbox, name, limits);
        let scope = tree::make_scope(&tree::pod(&uid), &id);
        tree::set(&scope, limits).expect("the limits that it starts with");
        let process = Process::start(&scope, program);
        self.locked().started(&id, process);
        id
    }

    /// Ends a container's process; its cgroup goes with it. The runtime lists it as one that has ended.
    pub fn end(&self, id: &str) {
        let (process, scope) = self.locked().ending(id);
        drop(process);
        tree::remove(&scope);
        self.locked().ended(id);
    }

    /// The runtime forgets a container that has ended.
    pub fn remove(&self, id: &str) {
        self.locked().remove(id);
    }

    /// Ends and forgets a pod with all that is in it.
    pub fn remove_pod(&self, sandbox: &str) {
        let containers = self.locked().of_pod(sandbox);
        for (id, runs) in containers {
            if runs {
                self.end(&id);
            }
            self.remove(&id);
        }
        let (process, pod) = self.locked().remove_pod(sandbox);
        drop(process);
        tree::remove(&pod);
    }

    /// The folder of a container's cgroup.
    pub fn cgroup(&self, id: &str) -> PathBuf {
        Path::new(MOUNT).join(self.locked().scope(id))
    }

    /// Somebody raises the limit of a container to so many bytes, once: when the runtime is asked about it with a limit that
    /// is lower than the runtime's own and no brake, as the gate leaves it before the runtime is told.
    pub fn raise_when_committed(&self, id: &str, bytes: u64) {
        self.locked().raise_when_committed(id, bytes);
    }

    /// Whether that has happened.
    pub fn is_raised(&self) -> bool {
        self.locked().is_raised()
    }

    /// Updates that it was sent.
    pub fn updates(&self) -> u64 {
        self.locked().updates()
    }

    /// Containers that run.
    pub fn running(&self) -> usize {
        self.locked().running()
    }

    /// Events that nobody took and that had no room.
    pub fn events_lost(&self) -> u64 {
        self.locked().events_lost()
    }

    /// How long the text is that the runtime says of a container besides what the API has fields for.
    pub fn info_bytes(&self, id: &str) -> usize {
        self.locked().info_bytes(id)
    }

    fn new_id(&mut self) -> String {
        self.made += 1;
        let part = |part: u64| format!("{:016x}", mixed(self.made * 4 + part));
        (0..4).map(part).collect()
    }

    fn locked(&self) -> MutexGuard<'_, Books> {
        locked(&self.books)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let sandboxes = self.locked().sandboxes();
        for sandbox in sandboxes {
            self.remove_pod(&sandbox);
        }
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Where the script panicked the test has failed of it.
            let _ = thread.join();
        }
        tree::remove_parent();
    }
}

fn locked(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// splitmix64's output function: numbers that look like nothing.
const fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
