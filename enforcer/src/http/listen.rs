//! Where connections come from.

use std::{future::Future, io};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};

/// Who is at the other end, as far as the kernel vouches for it. A request has it among its extensions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caller {
    /// The user it ran as when it connected; `None` where the socket does not tell.
    pub uid: Option<u32>,
    /// Its process when it connected, in our PID namespace.
    pub pid: Option<i32>,
}

/// Something that takes connections.
pub trait Listener {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection; cancel safe.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Caller)>>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Caller)> {
        let (stream, _) = TcpListener::accept(self).await?;
        Ok((stream, Caller::default()))
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Caller)> {
        let (stream, _) = UnixListener::accept(self).await?;
        let caller = stream
            .peer_cred()
            .map_or_else(|_| Caller::default(), |peer| Caller { uid: Some(peer.uid()), pid: peer.pid() });
        Ok((stream, caller))
    }
}
