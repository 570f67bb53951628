//! The API server's view of this node's pods, and what is said to it.
//!
//! What is pure: [`state`] and [`node`] (what is kept), [`resources`] (reading it), [`resize`] (how a resize stands),
//! [`scheduler`], [`expectations`] (which cgroup values should be in force), [`reasons`] (why it is stuck), [`flapping`].
//! What does I/O: [`connect`] and [`call`] (one request, bounded in time and size), [`watch`], [`patch`], [`outbox`].
//!
//! What comes from the API is other people's text and may be wrong: nothing here touches a cgroup, and what is patched
//! is patched over the generation that was decided on, or not at all.

pub mod amounts;
pub mod call;
pub mod connect;
pub mod event;
pub mod expectations;
pub mod flapping;
pub mod node;
pub mod outbox;
pub mod patch;
pub mod read;
pub mod reasons;
pub mod resize;
pub mod resources;
pub mod scheduler;
pub mod state;
mod stream;
pub mod takeback;
pub mod watch;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests {
    //! Scenarios against a scripted API server.
    mod call;
    mod outbox;
    mod server;
    mod watch;
}
