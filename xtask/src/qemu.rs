//! The emulator's command line.

use crate::kernels::Unpacked;
use std::path::Path;
use std::process::Command;

/// The guest's kernel command line. An oops ends the guest: its log is then shown. `no_timer_check`: on a busy
/// machine the emulated timer is late enough for the kernel to think that it is not connected, and to panic.
const APPEND: &str = "console=ttyS0 panic=-1 oops=panic quiet nokaslr mitigations=off cgroup_no_v1=all psi=1 \
     lsm=landlock,yama,bpf audit=0 init_on_alloc=0 tsc=reliable no_timer_check net.ifnames=0 cryptomgr.notests \
     initcall_blacklist=jent_mod_init,load_system_certificate_list";

/// What an emulator without KVM pays for again and again, and no test is about, is off: a fifth level of page tables at each
/// miss of its TLB, an end of a translated block at each `stac` and `clac`, copies and zeroes byte by byte (docs/building.md).
const CPU: &str = "max,la57=off,smap=off,smep=off,pku=off,erms=off,fsrm=off";

/// What differs from guest to guest.
pub(crate) struct Machine<'a> {
    pub(crate) kernel: &'a Unpacked,
    pub(crate) initramfs: &'a Path,
    pub(crate) memory_mib: u32,
    /// Count instructions instead of time: the guest's clock then runs one nanosecond an instruction.
    pub(crate) icount: bool,
    /// `vda`, `vdb`, ...
    pub(crate) disks: &'a [Disk<'a>],
    /// `ttyS0`: the kernel's log. `ttyS1` is standard input and output. `ttyS2`: the exit status.
    pub(crate) log: &'a Path,
    pub(crate) status: &'a Path,
}

/// A raw image.
pub(crate) struct Disk<'a> {
    pub(crate) image: &'a Path,
    /// What the guest writes goes to a temporary file, and the image stays as it is.
    pub(crate) snapshot: bool,
}

impl Machine<'_> {
    /// The emulator, ready to start; it dies with the thread that starts it.
    pub(crate) fn command(&self) -> Command {
        let mut qemu = Command::new("setpriv");
        qemu.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
        qemu.args(["-M", "q35", "-cpu", CPU, "-display", "none", "-monitor", "none", "-no-reboot"]);
        let (cpus, accelerator) = if self.icount {
            ("1", "tcg,thread=single,tb-size=256")
        } else {
            ("2", "tcg,thread=multi,tb-size=256")
        };
        qemu.args(["-smp", cpus, "-accel", accelerator]);
        if self.icount {
            qemu.args(["-icount", "shift=0,sleep=off"]);
        }
        qemu.arg("-m").arg(self.memory_mib.to_string());
        qemu.arg("-serial").arg(format!("file:{}", self.log.display()));
        qemu.args(["-chardev", "stdio,id=job,signal=off", "-serial", "chardev:job"]);
        qemu.arg("-serial").arg(format!("file:{}", self.status.display()));
        qemu.arg("-kernel").arg(&self.kernel.image).arg("-initrd").arg(self.initramfs);
        for disk in self.disks {
            let snapshot = if disk.snapshot { "on" } else { "off" };
            let image = disk.image.display();
            qemu.arg("-drive")
                .arg(format!("file={image},if=virtio,format=raw,cache=unsafe,snapshot={snapshot}"));
        }
        qemu.arg("-append").arg(APPEND);
        qemu
    }
}
