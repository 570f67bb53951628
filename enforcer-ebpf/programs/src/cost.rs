//! Every program's own run time.

use crate::maps::{COSTS, add};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use enforcer_abi::{Cost, Program};

/// Whether run times are taken. The loader sets it.
#[unsafe(no_mangle)]
static MEASURE: u8 = 0;

/// Runs a program's body and books its time.
#[inline(always)]
pub fn measured(program: Program, body: impl FnOnce()) -> i32 {
    // SAFETY: a read of a static; volatile because the loader changes it.
    if unsafe { (&raw const MEASURE).read_volatile() } == 0 {
        body();
        return 0;
    }
    // SAFETY: the helper takes no argument.
    let start = unsafe { bpf_ktime_get_ns() };
    body();
    // SAFETY: as above.
    let took = unsafe { bpf_ktime_get_ns() }.wrapping_sub(start);
    if let Some(cost) = COSTS.get_ptr_mut(program as u32) {
        // SAFETY: a map value stays valid for the program's whole run; the bucket is inside the array.
        unsafe {
            add(&raw mut (*cost).count, 1);
            add(&raw mut (*cost).total_ns, took);
            let histogram = (&raw mut (*cost).histogram).cast::<u64>();
            add(histogram.add(Cost::bucket(took)), 1);
        }
    }
    0
}
