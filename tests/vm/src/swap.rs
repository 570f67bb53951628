//! Swap for a test: a zram device, given back when it is dropped.

use crate::case;
use std::ffi::CString;
use std::fs;
use std::io::Write;

const DEVICE: &str = "/dev/zram0";
const CONTROL: &str = "/sys/block/zram0";
const PAGE: usize = 4096;

/// Needs zram with a compressor of its own; before 6.12 that is a module more, which guests do not have.
pub fn needed() -> Result<(), String> {
    case::at_least(6, 12)?;
    case::file(CONTROL)
}

/// Swap that is on while this lives.
#[derive(Debug)]
pub struct Swap(());

impl Swap {
    /// Turns on swap of this size. Panics where the kernel refuses: there is no test without it.
    pub fn on(bytes: usize) -> Self {
        fs::write(format!("{CONTROL}/disksize"), bytes.to_string()).expect("set the size of zram");
        let mut device = fs::File::options().write(true).open(DEVICE).expect("open zram");
        device.write_all(&header(bytes)).expect("write the swap header");
        device.sync_all().expect("write the swap header");
        drop(device);
        let path = CString::new(DEVICE).expect("has no zero");
        // SAFETY: the path ends with a zero and outlives the call.
        let done = unsafe { libc::swapon(path.as_ptr(), 0) };
        assert_eq!(done, 0, "swapon: {}", std::io::Error::last_os_error());
        Self(())
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let path = CString::new(DEVICE).expect("has no zero");
        // SAFETY: the path ends with a zero and outlives the call.
        unsafe { libc::swapoff(path.as_ptr()) };
        drop(fs::write(format!("{CONTROL}/reset"), "1"));
    }
}

/// `union swap_header` of `linux/swap.h`, version 1.
fn header(bytes: usize) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let last_page = u32::try_from(bytes / PAGE - 1).expect("small");
    page[1024..1028].copy_from_slice(&1_u32.to_le_bytes());
    page[1028..1032].copy_from_slice(&last_page.to_le_bytes());
    page[PAGE - 10..].copy_from_slice(b"SWAPSPACE2");
    page
}
