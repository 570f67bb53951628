//! The kernel programs: load, attach, listen.
