//! Builds the kernel programs with the toolchain that the machine has.
