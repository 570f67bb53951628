//! enforcer's kernel programs. Each file answers one need; `enforcer/src/probe` decides which programs are
//! loaded on which kernel.
#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![allow(internal_features, reason = "the BPF target has no compare-and-swap, so no core atomics")]
#![allow(
    clippy::needless_borrows_for_generic_args,
    reason = "the helpers take addresses; by value everything would be copied once more on a stack of 512 bytes"
)]

mod cost;
mod guard;
mod kernel;
mod life;
mod limit;
mod maps;
mod oom;
mod past;
mod reclaim;
mod written;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // No program contains a reachable panic: the verifier would refuse this loop.
    loop {}
}

// What the kernel reads to decide which helpers it gives.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 4] = *b"GPL\0";
