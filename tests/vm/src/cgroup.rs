//! Reading real cgroups.

use enforcer::cgroup::{Cgroup, CgroupError, PressureTrigger, Sampler, Stall};
use enforcer_gate::{Bytes, Limit, Micros, Sample};
use enforcer_vm_tests::{
    case::{Case, Tier, at_least, nothing},
    scratch::{MOUNT, Scratch},
    swap::{self, Swap},
    workload::Workload,
};
use nix::mount::{MsFlags, mount};
use std::{
    fs,
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::Path,
};

const MIB: u64 = 1024 * 1024;

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, tier, run| Case { name, tier, needs: nothing, run };
    vec![
        case("cgroup::the_id_is_the_kernels", Tier::Smoke, the_id_is_the_kernels as fn()),
        case("cgroup::a_sample_says_what_lives_there", Tier::Smoke, a_sample_says_what_lives_there),
        case("cgroup::ancestors_limits_are_seen", Tier::Full, ancestors_limits_are_seen),
        case("cgroup::frozen_and_empty_are_seen", Tier::Smoke, frozen_and_empty_are_seen),
        case("cgroup::a_removed_cgroup_is_gone_for_good", Tier::Smoke, a_removed_cgroup_is_gone_for_good),
        case("cgroup::one_without_memory_files_says_why", Tier::Full, one_without_memory_files_says_why),
        case("cgroup::own_protection_does_not_hold", Tier::Smoke, own_protection_does_not_hold),
        case("cgroup::a_childs_protection_holds", Tier::Smoke, a_childs_protection_holds),
        case("cgroup::recursive_protection_is_followed", Tier::Smoke, recursive_protection_is_followed),
        case("cgroup::low_gives_way_at_last", Tier::Full, low_gives_way_at_last),
        case("cgroup::a_pressure_trigger_fires", Tier::Full, a_pressure_trigger_fires),
        Case {
            name: "cgroup::hugetlb_is_counted_where_it_is_charged",
            tier: Tier::Smoke,
            needs: || at_least(6, 7),
            run: hugetlb_is_counted_where_it_is_charged,
        },
        Case {
            name: "cgroup::swap_room_is_what_is_left",
            tier: Tier::Full,
            needs: swap::needed,
            run: swap_room_is_what_is_left,
        },
    ]
}

fn open(scratch: &Scratch) -> Cgroup {
    Cgroup::open(scratch.path()).unwrap()
}

fn sample(scratch: &Scratch) -> Sample {
    Sampler::new(&open(scratch)).unwrap().sample().unwrap()
}

/// `name_to_handle_at` gives `kn->id` of a folder in cgroupfs.
fn the_id_is_the_kernels() {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        id: u64,
    }
    let scratch = Scratch::new("id");
    let mut handle = Handle { bytes: 8, kind: 0, id: 0 };
    let path = std::ffi::CString::new(scratch.path().to_str().unwrap()).unwrap();
    let mut mount_id = 0;
    // SAFETY: the path ends with a zero, the handle has the room that it says, and both outlive the call.
    let done = unsafe {
        libc::name_to_handle_at(libc::AT_FDCWD, path.as_ptr(), (&raw mut handle).cast(), &raw mut mount_id, 0)
    };
    assert_eq!(done, 0);
    assert_eq!(open(&scratch).id().get(), handle.id);
    assert_eq!(handle.id, fs::metadata(scratch.path()).unwrap().ino());
}

fn a_sample_says_what_lives_there() {
    let scratch = Scratch::new("sample");
    scratch.write("memory.max", "256M");
    scratch.write("memory.high", "200M");
    scratch.write("memory.swap.max", "0");
    let _cache = Workload::run(&scratch, "cache --file /data/sample --size 20Mi --anon 30Mi");
    let sample = sample(&scratch);
    assert!(sample.stat.anon.get() >= 30 * MIB && sample.stat.file.get() >= 20 * MIB, "{:?}", sample.stat);
    let named = sample.stat.anon.saturating_add(sample.stat.file).saturating_add(sample.stat.kernel);
    assert!(sample.current >= Bytes::from_mib(50), "{:?}", sample.current);
    // What has a name explains what is charged, but for the CPUs' batches.
    assert!(sample.current.get().abs_diff(named.get()) < 2 * MIB, "{:?} {named:?}", sample.current);
    assert_eq!(sample.max, Limit::Bytes(Bytes::from_mib(256)));
    assert_eq!(sample.high, Limit::Bytes(Bytes::from_mib(200)));
    assert!(sample.pressure.is_some() && sample.populated && !sample.frozen);
    assert_eq!((sample.events_local.oom_kill, sample.swap.free), (0, Bytes::ZERO));
    assert_eq!(sample.ancestors, []);
}

fn ancestors_limits_are_seen() {
    let pod = Scratch::new("pod");
    let container = pod.child("container");
    pod.write("memory.max", "64M");
    pod.write("memory.swap.max", "0");
    let _anon = Workload::run(&container, "anon --size 8Mi");
    let sample = sample(&container);
    let [ancestor] = &sample.ancestors[..] else { panic!("{:?}", sample.ancestors) };
    assert_eq!(Path::new(MOUNT).join(&ancestor.path), pod.path());
    assert_eq!((ancestor.max, ancestor.high), (Limit::Bytes(Bytes::from_mib(64)), Limit::Max));
    assert!(ancestor.current >= Bytes::from_mib(8));
    assert_eq!((sample.max, sample.swap.free), (Limit::Max, Bytes::ZERO));
}

fn frozen_and_empty_are_seen() {
    let scratch = Scratch::new("frozen");
    let empty = sample(&scratch);
    assert!(!empty.populated && !empty.frozen);
    let _anon = Workload::run(&scratch, "anon --size 8Mi");
    scratch.write("cgroup.freeze", "1");
    // The file says 1 once every process has stopped; that is an event of the kernel's, seen by its notification.
    wait_for(&scratch, |text| text.contains("frozen 1"));
    let frozen = sample(&scratch);
    assert!(frozen.populated && frozen.frozen);
}

/// Waits for what `cgroup.events` notifies of.
fn wait_for(scratch: &Scratch, wanted: impl Fn(&str) -> bool) {
    use nix::poll::{PollFd, PollFlags, poll};
    use std::{io::Read as _, io::Seek as _, os::fd::AsFd as _};
    let mut file = fs::File::open(scratch.path().join("cgroup.events")).unwrap();
    loop {
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        if wanted(&text) {
            return;
        }
        let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLPRI)];
        assert_eq!(poll(&mut fds, 60_000_u16), Ok(1), "no change of {text:?}");
    }
}

fn a_removed_cgroup_is_gone_for_good() {
    let scratch = Scratch::new("gone");
    let path = scratch.path().to_owned();
    let cgroup = open(&scratch);
    let mut sampler = Sampler::new(&cgroup).unwrap();
    sampler.sample().unwrap();
    fs::remove_dir(&path).unwrap();
    let gone = |result: Result<(), CgroupError>| matches!(result, Err(error) if error.is_gone());
    assert!(gone(sampler.sample().map(drop)));
    assert!(gone(Cgroup::open(&path).map(drop)));
    // Another one of the same name is another cgroup.
    fs::create_dir(&path).unwrap();
    assert!(gone(sampler.sample().map(drop)));
    assert!(gone(Sampler::new(&cgroup).map(drop)));
    assert!(!cgroup.exists().unwrap());
    assert_ne!(open(&scratch).id(), cgroup.id());
}

fn one_without_memory_files_says_why() {
    let scratch = Scratch::new("bare");
    let below = scratch.path().join("below");
    fs::create_dir(&below).unwrap();
    let why = |path: &Path| Sampler::new(&Cgroup::open(path).unwrap()).unwrap_err().to_string();
    assert!(why(&below).contains("subtree_control"), "{}", why(&below));
    assert!(why(Path::new(MOUNT)).contains("root"), "{}", why(Path::new(MOUNT)));
}

/// Reclaims as much as there is, and says what was left of the file memory below `target`.
fn reclaim_all(target: &Scratch) -> u64 {
    for _ in 0..8 {
        let file = fs::File::options().write(true).open(target.path().join("memory.reclaim")).unwrap();
        // EAGAIN: less than asked, which is the point.
        let _ = nix::unistd::write(&file, b"1G");
        assert!(file.as_raw_fd() >= 0);
    }
    let after = sample(target);
    after.stat.inactive_file.get() + after.stat.active_file.get()
}

#[track_caller]
fn assert_about(got: u64, expected: u64) {
    assert!(got.abs_diff(expected) <= 6 * MIB, "{} MiB, expected {} MiB", got / MIB, expected / MIB);
}

/// Neither the target's own protection nor its parent's keeps anything from reclaim aimed at the target.
fn own_protection_does_not_hold() {
    let pod = Scratch::new("own");
    let target = pod.child("target");
    pod.write("memory.min", "64M");
    target.write("memory.min", "64M");
    let _cache = Workload::run(&target, "cache --file /data/own --size 40Mi");
    let before = sample(&target);
    assert!(before.stat.file >= Bytes::from_mib(40));
    assert_eq!(before.protection.min, Bytes::ZERO);
    assert_about(reclaim_all(&target), 0);
}

fn a_childs_protection_holds() {
    let target = Scratch::new("child");
    let child = target.child("inner");
    child.write("memory.min", "24M");
    let _cache = Workload::run(&child, "cache --file /data/child --size 60Mi");
    let before = sample(&target).protection;
    let left = reclaim_all(&target);
    assert!(left > 12 * MIB, "nothing was kept: {left}");
    // Protected is a share of all that the child is charged, so a little less of its file memory.
    assert_about(before.min.get(), left);
    assert_eq!(before.low, Bytes::ZERO);
}

/// With the mount option, what a parent leaves unclaimed protects its children; without it, nothing does.
fn recursive_protection_is_followed() {
    for (option, is_kept) in [("memory_recursiveprot", true), ("", false)] {
        remount(option);
        let target = Scratch::new("recursive");
        let middle = target.child("middle");
        middle.write("memory.min", "24M");
        let leaf = middle.child("leaf");
        let _cache = Workload::run(&leaf, "cache --file /data/recursive --size 60Mi");
        let before = sample(&target).protection.min.get();
        let left = reclaim_all(&target);
        assert_eq!(left > 12 * MIB, is_kept, "{option:?}: {left} left");
        assert_about(before, left);
    }
    remount("");
}

fn remount(option: &str) {
    let none = None::<&str>;
    mount(none, MOUNT, none, MsFlags::MS_REMOUNT, Some(option)).unwrap();
}

/// `memory.low` is kept while there is something else, and is taken when there is not.
fn low_gives_way_at_last() {
    let target = Scratch::new("low");
    let low = target.child("low");
    let other = target.child("other");
    low.write("memory.low", "24M");
    let _low = Workload::run(&low, "cache --file /data/low --size 24Mi");
    let _other = Workload::run(&other, "cache --file /data/other --size 24Mi");
    let before = sample(&target).protection;
    assert_eq!(before.min, Bytes::ZERO);
    assert!(before.low >= Bytes::from_mib(20), "{before:?}");
    target.write("memory.reclaim", "16M");
    let kept = |scratch: &Scratch| scratch.counter("memory.stat", "file");
    assert!(kept(&low) >= 20 * MIB && kept(&other) <= 12 * MIB, "{} {}", kept(&low), kept(&other));
    assert_about(reclaim_all(&target), 0);
}

fn a_pressure_trigger_fires() {
    let scratch = Scratch::new("trigger");
    scratch.write("memory.swap.max", "0");
    let cgroup = open(&scratch);
    let span = (Micros::from_millis(50), Micros::from_millis(500));
    let trigger = PressureTrigger::new(&cgroup, Stall::Some, span.0, span.1).unwrap().unwrap();
    assert!(!trigger.wait(0).unwrap());
    let mut grower = Workload::run(&scratch, "anon --size 400Mi --start 8Mi --rate 40Mi");
    scratch.write("memory.high", "16M");
    let fired = (0..60).any(|_| trigger.wait(1000).unwrap());
    assert!(fired);
    scratch.write("memory.high", "max");
    assert!(grower.alive());
    drop(grower);
    scratch.clear();
    fs::remove_dir(scratch.path()).unwrap();
    let ended = (0..60).find_map(|_| trigger.wait(1000).err());
    assert!(ended.is_some_and(|error| error.is_gone()));
}

fn hugetlb_is_counted_where_it_is_charged() {
    fs::write("/proc/sys/vm/nr_hugepages", "8").unwrap();
    // Before memory.stat names them (6.18 does), only this controller's files tell.
    fs::write(Path::new(MOUNT).join("cgroup.subtree_control"), "+hugetlb").unwrap();
    let scratch = Scratch::new("hugetlb");
    let (read, write) = nix::unistd::pipe().unwrap();
    remount("memory_hugetlb_accounting");
    // SAFETY: the child calls async-signal-safe functions only and ends by _exit.
    match unsafe { nix::unistd::fork() }.unwrap() {
        // SAFETY: as above; the mapping is checked and written within its bounds.
        nix::unistd::ForkResult::Child => unsafe {
            let procs =
                std::ffi::CString::new(scratch.path().join("cgroup.procs").to_str().unwrap()).unwrap();
            let fd = libc::open(procs.as_ptr(), libc::O_WRONLY);
            libc::write(fd, c"0".as_ptr().cast(), 1);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let memory = libc::mmap(std::ptr::null_mut(), 4 << 20, protection, flags, -1, 0);
            if memory != libc::MAP_FAILED {
                libc::memset(memory, 1, 4 << 20);
                libc::write(write.as_raw_fd(), c"r".as_ptr().cast(), 1);
            }
            libc::pause();
            libc::_exit(0)
        },
        nix::unistd::ForkResult::Parent { child } => {
            drop(write);
            assert_eq!(nix::unistd::read(&read, &mut [0]), Ok(1), "no huge pages");
            let sample = sample(&scratch);
            assert_eq!(sample.hugetlb, Bytes::from_mib(4));
            assert!(sample.current >= sample.hugetlb);
            remount("");
            // SAFETY: the child is ours.
            unsafe { libc::kill(child.as_raw(), libc::SIGKILL) };
            nix::sys::wait::waitpid(child, None).unwrap();
        }
    }
    fs::write("/proc/sys/vm/nr_hugepages", "0").unwrap();
}

fn swap_room_is_what_is_left() {
    let pod = Scratch::new("swap");
    let container = pod.child("container");
    let _anon = Workload::run(&container, "anon --size 40Mi");
    assert_eq!(sample(&container).swap.free, Bytes::ZERO);
    let swap = Swap::on(64 << 20);
    let free = || sample(&container).swap.free.get();
    assert!((60 * MIB..=64 * MIB).contains(&free()), "{}", free());
    container.write("memory.swap.max", "24M");
    assert_eq!(free(), 24 * MIB);
    container.write("memory.reclaim", "8M");
    let used = || container.limit("memory.swap.current").parse::<u64>().unwrap();
    assert!(used() >= 6 * MIB, "{}", used());
    assert_about(free(), 24 * MIB - used());
    // The pod has swapped as much as its container, and may swap less.
    pod.write("memory.swap.max", "16M");
    assert_about(free(), 16 * MIB - used());
    drop(swap);
}
