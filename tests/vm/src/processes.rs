//! Which processes there are.

/// Every process.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").expect("is mounted").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A child of a process.
pub fn child_of(parent: u32) -> Option<u32> {
    let parent = format!("\nPPid:\t{parent}\n");
    pids().find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|text| text.contains(&parent))
    })
}
