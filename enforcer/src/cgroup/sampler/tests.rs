use super::*;
use crate::cgroup::fixture::Fixture;
use enforcer_gate::{AncestorLimit, Limit, Micros, Pressure, Protection};

struct Host {
    meminfo: tempfile::NamedTempFile,
    zswap: tempfile::NamedTempFile,
}

impl Host {
    fn new(swap_free_kib: u64, zswap: &str) -> Self {
        let host = Self {
            meminfo: tempfile::NamedTempFile::new().unwrap(),
            zswap: tempfile::NamedTempFile::new().unwrap(),
        };
        std::fs::write(host.meminfo.path(), format!("SwapFree: {swap_free_kib} kB\n")).unwrap();
        std::fs::write(host.zswap.path(), zswap).unwrap();
        host
    }

    fn sample(&self, cgroup: &Cgroup) -> Result<Sample, CgroupError> {
        let files = HostFiles { meminfo: self.meminfo.path(), zswap_enabled: self.zswap.path() };
        Sampler::with_host(cgroup, files)?.sample()
    }
}

#[test]
fn every_file_ends_up_in_its_field() {
    let tree = Fixture::new();
    tree.cgroup("pod/ctr");
    tree.write("pod/memory.max", "1048576\n");
    tree.write("pod/memory.high", "524288\n");
    tree.write("pod/memory.current", "8192\n");
    tree.write("pod/ctr/memory.current", "4096\n");
    tree.write("pod/ctr/memory.max", "65536\n");
    tree.write("pod/ctr/memory.high", "32768\n");
    tree.write("pod/ctr/memory.stat", "anon 1024\nfile 2048\nkernel 512\n");
    tree.write("pod/ctr/memory.events", "low 0\nhigh 1\nmax 2\noom 3\noom_kill 4\n");
    tree.write("pod/ctr/memory.events.local", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 5\n");
    tree.write("pod/ctr/memory.pressure", "some total=10\nfull total=7\n");
    tree.write("pod/ctr/cgroup.events", "populated 0\nfrozen 1\n");
    let sample = Host::new(0, "N\n").sample(&tree.open("pod/ctr").unwrap()).unwrap();
    assert_eq!(sample.current, Bytes::new(4096));
    assert_eq!((sample.max, sample.high), (bytes(65536), bytes(32768)));
    assert_eq!((sample.stat.anon, sample.stat.file, sample.stat.kernel), (b(1024), b(2048), b(512)));
    assert_eq!((sample.events.oom_kill, sample.events_local.oom_kill), (4, 5));
    let pressure = Pressure { some_total: Micros::new(10), full_total: Micros::new(7) };
    assert_eq!(sample.pressure, Some(pressure));
    assert!(!sample.populated && sample.frozen);
    let pod =
        AncestorLimit { path: "pod".into(), max: bytes(1_048_576), high: bytes(524_288), current: b(8192) };
    assert_eq!(sample.ancestors, [pod]);
}

#[test]
fn a_second_reading_sees_what_changed() {
    let tree = Fixture::new();
    tree.cgroup("a");
    let mut sampler = Sampler::with_host(&tree.open("a").unwrap(), HostFiles::of_this_host()).unwrap();
    assert_eq!(sampler.sample().unwrap().current, Bytes::ZERO);
    tree.write("a/memory.current", "12288\n");
    assert_eq!(sampler.sample().unwrap().current, b(12288));
}

#[test]
fn swap_is_what_the_tightest_level_and_the_host_leave() {
    let tree = Fixture::new();
    tree.cgroup("pod/ctr");
    tree.write("pod/memory.swap.max", "10000000\n");
    tree.write("pod/memory.swap.current", "4000000\n");
    let free =
        |host_kib| Host::new(host_kib, "N\n").sample(&tree.open("pod/ctr").unwrap()).unwrap().swap.free;
    assert_eq!(free(1_000_000), b(6_000_000));
    assert_eq!(free(100), b(102_400));
    tree.write("pod/ctr/memory.swap.max", "0\n");
    assert_eq!(free(1_000_000), Bytes::ZERO);
    for file in ["pod/ctr/memory.swap.max", "pod/memory.swap.max"] {
        tree.remove(file);
    }
    assert_eq!(free(100), b(102_400));
}

#[test]
fn zswap_needs_the_host_switch_and_every_level() {
    let tree = Fixture::new();
    tree.cgroup("pod/ctr");
    let zswap = |switch| Host::new(100, switch).sample(&tree.open("pod/ctr").unwrap()).unwrap().swap.zswap;
    assert!(zswap("Y\n"));
    assert!(!zswap("N\n"));
    tree.write("pod/memory.zswap.max", "0\n");
    assert!(!zswap("Y\n"));
}

#[test]
fn hugetlb_counts_only_where_it_is_charged() {
    for (accounting, key, expected) in [(true, "", 6), (true, "hugetlb 5\n", 5), (false, "", 0)] {
        let tree = Fixture::with_options(true, accounting);
        tree.cgroup("a");
        tree.write("a/hugetlb.2MB.current", "4\n");
        tree.write("a/hugetlb.1GB.current", "2\n");
        tree.write("a/hugetlb.2MB.rsvd.current", "100\n");
        tree.write("a/memory.stat", &format!("anon 0\n{key}"));
        let sample = Host::new(0, "N\n").sample(&tree.open("a").unwrap()).unwrap();
        assert_eq!(sample.hugetlb, b(expected), "{accounting} {key:?}");
    }
}

#[test]
fn protection_of_those_below_is_counted_and_the_own_is_not() {
    let tree = Fixture::new();
    tree.cgroup("pod/ctr/inner");
    for cgroup in ["pod", "pod/ctr"] {
        tree.write(&format!("{cgroup}/memory.min"), "max\n");
        tree.write(&format!("{cgroup}/cgroup.stat"), "nr_descendants 1\n");
    }
    tree.write("pod/ctr/inner/memory.current", "40960\n");
    tree.write(
        "pod/ctr/inner/memory.stat",
        "anon 20480\ninactive_file 12288\nactive_file 8192\nactive_anon 20480\n",
    );
    let read = |swap| Host::new(swap, "N\n").sample(&tree.open("pod/ctr").unwrap()).unwrap().protection;
    assert_eq!(read(0), Protection::default());
    tree.write("pod/ctr/inner/memory.min", "20480\n");
    tree.write("pod/ctr/inner/memory.low", "40960\n");
    assert_eq!(read(0), Protection { min: b(10240), low: b(10240) });
    assert_eq!(read(1000), Protection { min: b(20480), low: b(20480) });
}

#[test]
fn a_frozen_cgroup_below_is_named_if_somebody_lives_in_it() {
    let tree = Fixture::new();
    tree.cgroup("pod/ctr/inner");
    let read = || Host::new(0, "N\n").sample(&tree.open("pod").unwrap()).unwrap().frozen_below;
    tree.write("pod/ctr/inner/cgroup.events", "populated 1\nfrozen 1\n");
    assert_eq!(read(), None, "no walk where there is nothing below");
    tree.write("pod/cgroup.stat", "nr_descendants 2\n");
    assert_eq!(read().as_deref(), Some("pod/ctr/inner"));
    tree.write("pod/ctr/inner/memory.min", "4096\n");
    assert_eq!(read().as_deref(), Some("pod/ctr/inner"), "also where something is protected");
    tree.write("pod/ctr/cgroup.events", "populated 1\nfrozen 1\n");
    assert_eq!(read().as_deref(), Some("pod/ctr"));
    tree.write("pod/ctr/cgroup.events", "populated 0\nfrozen 1\n");
    tree.write("pod/ctr/inner/cgroup.events", "populated 0\nfrozen 1\n");
    assert_eq!(read(), None, "nobody is stopped");
    // Threaded cgroups have no memory files, and can be frozen all the same.
    for file in ["min", "low"] {
        tree.remove(&format!("pod/ctr/inner/memory.{file}"));
    }
    tree.write("pod/ctr/inner/cgroup.events", "populated 1\nfrozen 1\n");
    assert_eq!(read().as_deref(), Some("pod/ctr/inner"));
}

#[test]
fn psi_that_is_off_is_no_error_and_a_missing_controller_is() {
    let tree = Fixture::new();
    tree.cgroup("a");
    tree.remove("a/memory.pressure");
    let host = Host::new(0, "N\n");
    assert_eq!(host.sample(&tree.open("a").unwrap()).unwrap().pressure, None);
    tree.remove("a/memory.current");
    let error = host.sample(&tree.open("a").unwrap()).unwrap_err();
    assert!(matches!(error, CgroupError::NoMemoryFiles { .. }), "{error}");
}

#[test]
fn a_malformed_file_is_named() {
    let tree = Fixture::new();
    tree.cgroup("a");
    tree.write("a/memory.stat", "anon x\n");
    let error = Host::new(0, "N\n").sample(&tree.open("a").unwrap()).unwrap_err();
    assert!(error.to_string().ends_with("a/memory.stat: not a number in line 1"), "{error}");
}

#[test]
fn a_file_without_end_is_cut_at_the_bound() {
    let tree = Fixture::new();
    tree.cgroup("a");
    tree.write("a/memory.stat", &"anon 1\n".repeat(FILE_BYTES_MAX));
    let error = Host::new(0, "N\n").sample(&tree.open("a").unwrap()).unwrap_err();
    assert!(matches!(error, CgroupError::TooLong { .. }), "{error}");
}

fn b(n: u64) -> Bytes {
    Bytes::new(n)
}

fn bytes(n: u64) -> Limit {
    Limit::Bytes(b(n))
}
