//! What kernel programs and user space hand each other: plain data with a locked layout.
