//! What listens on sockets, on a thread of its own: it answers, and says so, also where the agent's loop hangs.

use std::{
    future::Future,
    io,
    sync::mpsc::{Receiver, sync_channel},
    time::Duration,
};
use tokio::{runtime, sync::watch};

/// How long the end waits for answers that are on their way.
const GRACE: Duration = Duration::from_secs(5);

/// The thread. It is told to end with this.
#[derive(Debug)]
pub(super) struct Servers {
    stop: watch::Sender<bool>,
    ended: Receiver<()>,
}

/// Done once the servers are to stop.
#[derive(Debug, Clone)]
pub(super) struct Stop(watch::Receiver<bool>);

impl Stop {
    pub(super) async fn wait(mut self) {
        // Its other end is gone where the agent is.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

impl Servers {
    /// Runs them until they are told to stop. `serve` is called on their thread, where tokio is.
    pub(super) fn start<F: Future<Output = ()>>(
        serve: impl FnOnce(Stop) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let (tell, told) = sync_channel(1);
        let (end, ended) = sync_channel(1);
        std::thread::Builder::new().name("servers".into()).spawn(move || {
            match runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => {
                    let _ = tell.send(Ok(()));
                    runtime.block_on(async { serve(Stop(stopped)).await });
                }
                Err(error) => drop(tell.send(Err(error))),
            }
            // Nobody waits where the agent has gone.
            let _ = end.send(());
        })?;
        told.recv().map_err(|_| io::Error::other("the servers' thread has ended"))??;
        Ok(Self { stop, ended })
    }

    /// Tells them to stop, and waits for them. `false`: they do not end in time.
    pub(super) fn end(&mut self) -> bool {
        self.stop.send_replace(true);
        // Where it panicked it has ended as well.
        self.ended.recv_timeout(GRACE) != Err(std::sync::mpsc::RecvTimeoutError::Timeout)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{health::Health, http::Losses};
    use crate::{
        http::{Limits, serve_pages},
        metrics::Metrics,
    };
    use std::{
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream},
    };

    fn get(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("connects");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").expect("is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("is answered");
        answer
    }

    /// This thread is the loop, and waits in the client's read.
    #[test]
    fn a_loop_that_hangs_is_told_of() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        listener.set_nonblocking(true).expect("is set");
        let address = listener.local_addr().expect("has an address");
        let (metrics, health) = (Metrics::new(), Health::new());
        let losses: Losses = metrics.connections();
        let of_thread = health.clone();
        let mut servers = Servers::start(move |stop| async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("is taken");
            serve_pages(listener, Limits::PAGES, metrics, of_thread, std::future::pending, stop.wait()).await;
        })
        .expect("starts");
        assert!(get(address, "/healthz").starts_with("HTTP/1.1 200 "));
        health.silence();
        let answer = get(address, "/healthz");
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("no sign of life for "), "{answer}");
        let answer = get(address, "/metrics");
        assert!(answer.starts_with("HTTP/1.1 504 ") && answer.contains("last sign of life"), "{answer}");
        assert!(servers.end());
        TcpStream::connect(address).expect_err("nobody listens any more");
        assert_eq!((losses.cut(), losses.failed()), (0, 0));
    }
}
