//! The image that is measured with: one program, made on the spot, that waits, or works, or ends at once, by how many
//! words its command line has. No I/O.

use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Where the program is in it.
pub const PROGRAM: &str = "/wait";
/// Its architecture, as OCI names it; `None` where no program can be made.
pub const ARCHITECTURE: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("amd64")
} else if cfg!(target_arch = "aarch64") {
    Some("arm64")
} else {
    None
};

/// The command line that has it work without a pause.
pub const WORK: [&str; 2] = [PROGRAM, "work"];
/// The command line that has it end at once, with success.
pub const END: [&str; 3] = [PROGRAM, "and", "end"];

/// ```text
/// 0      mov rax, [rsp]     the count of words (System V ABI, AMD64, 3.4.1)
/// 4      cmp eax, 2
/// 7      je  20             to itself
/// 9      ja  22
/// 11     mov eax, 34        pause(2)
/// 16     syscall
/// 18     jmp 11
/// 20     jmp 20
/// 22     xor edi, edi
/// 24     mov eax, 231       exit_group(2)
/// 29     syscall
/// ```
const WAIT_X86_64: &[u8] = &[
    0x48, 0x8b, 0x04, 0x24, 0x83, 0xf8, 2, 0x74, 11, 0x77, 11, 0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7,
    0xeb, 0xfe, 0x31, 0xff, 0xb8, 231, 0, 0, 0, 0x0f, 0x05,
];
/// ```text
/// 0      ldr x0, [sp]       the count of words
/// 1      cmp x0, #2
/// 2      b.eq 12            to itself
/// 3      b.hi 13
/// 4..=8  x0 to x4 zero
/// 9      x8 73              ppoll(2) of nothing without an end
/// 10     svc 0
/// 11     b 4
/// 12     b 12
/// 13     x0 zero
/// 14     x8 94              exit_group(2)
/// 15     svc 0
/// ```
const WAIT_AARCH64: &[u32] = &[
    0xf940_03e0,
    0xf100_081f,
    0x5400_0140,
    0x5400_0148,
    0xd280_0000,
    0xd280_0001,
    0xd280_0002,
    0xd280_0003,
    0xd280_0004,
    0xd280_0928,
    0xd400_0001,
    0x17ff_fff9,
    0x1400_0000,
    0xd280_0000,
    0xd280_0bc8,
    0xd400_0001,
];
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;
const PAGE: usize = 4096;
const BASE: u64 = 0x40_0000;
const ELF_HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const TAR_BLOCK: usize = 512;

/// Types of the OCI image specification.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Something that is named by what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// `sha256:...`
    pub digest: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        let mut digest = String::from("sha256:");
        for byte in Sha256::digest(&bytes) {
            // Writing to a String can't fail.
            let _ = write!(digest, "{byte:02x}");
        }
        Self { digest, bytes }
    }

    fn descriptor(&self, kind: &str) -> serde_json::Value {
        json!({"mediaType": kind, "digest": self.digest, "size": self.bytes.len()})
    }
}

/// An image: what a registry serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The manifest.
    pub manifest: Blob,
    /// What it names.
    pub blobs: Vec<Blob>,
}

impl Image {
    /// For this machine; `None` where [`ARCHITECTURE`] is.
    pub fn of_this_machine() -> Option<Self> {
        let architecture = ARCHITECTURE?;
        let (machine, code) = if architecture == "amd64" {
            (EM_X86_64, WAIT_X86_64.to_vec())
        } else {
            (EM_AARCH64, WAIT_AARCH64.iter().flat_map(|word| word.to_le_bytes()).collect())
        };
        let layer = Blob::new(archive(PROGRAM.trim_start_matches('/'), &program(machine, &code)));
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": {"Entrypoint": [PROGRAM]},
            "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
        });
        let config = Blob::new(config.to_string().into_bytes());
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(CONFIG),
            "layers": [layer.descriptor(LAYER)],
        });
        Some(Self { manifest: Blob::new(manifest.to_string().into_bytes()), blobs: vec![config, layer] })
    }
}

/// A static program of one segment (elf(5)).
fn program(machine: u16, code: &[u8]) -> Vec<u8> {
    let start = ELF_HEADER + PROGRAM_HEADER;
    let size = start + code.len();
    let wide = |value: usize| u64::try_from(value).unwrap_or(u64::MAX).to_le_bytes();
    let mut elf = Vec::with_capacity(size);
    // 64 bits, little endian, version 1.
    elf.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    elf.extend(2_u16.to_le_bytes());
    elf.extend(machine.to_le_bytes());
    elf.extend(1_u32.to_le_bytes());
    elf.extend((BASE + start as u64).to_le_bytes());
    elf.extend(wide(ELF_HEADER));
    elf.extend(0_u64.to_le_bytes());
    elf.extend(0_u32.to_le_bytes());
    for half in [ELF_HEADER, PROGRAM_HEADER, 1, 0, 0, 0] {
        elf.extend(u16::try_from(half).unwrap_or(0).to_le_bytes());
    }
    // PT_LOAD, to be read and run.
    elf.extend(1_u32.to_le_bytes());
    elf.extend(5_u32.to_le_bytes());
    elf.extend(0_u64.to_le_bytes());
    elf.extend(BASE.to_le_bytes());
    elf.extend(BASE.to_le_bytes());
    elf.extend(wide(size));
    elf.extend(wide(size));
    elf.extend(wide(PAGE));
    elf.extend(code);
    elf
}

/// A tar of one program (POSIX.1-1988, ustar).
fn archive(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut head = [0_u8; TAR_BLOCK];
    let mut put = |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000755");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", bytes.len()));
    put(136, "00000000000");
    // The sum is counted with blanks in its own place.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut tar = head.to_vec();
    tar.extend(bytes);
    // Filled up to a block, and two empty ones at the end.
    tar.resize(tar.len().next_multiple_of(TAR_BLOCK) + 2 * TAR_BLOCK, 0);
    tar
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_digest_is_that_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Blob::new(b"abc".to_vec()).digest, digest);
    }

    #[test]
    fn the_manifest_names_what_is_there() {
        let Some(image) = Image::of_this_machine() else { return };
        let manifest: serde_json::Value = serde_json::from_slice(&image.manifest.bytes).expect("is JSON");
        for (of, blob) in [(&manifest["config"], &image.blobs[0]), (&manifest["layers"][0], &image.blobs[1])]
        {
            assert_eq!(of["digest"], blob.digest.as_str());
            assert_eq!(of["size"], blob.bytes.len());
        }
    }

    /// The jumps of both programs lead where they are said to.
    #[test]
    fn jumps_lead_where_they_are_said_to() {
        let short = |at: usize| {
            let by = i64::from(WAIT_X86_64[at + 1].cast_signed());
            (WAIT_X86_64[at], i64::try_from(at).expect("few") + 2 + by)
        };
        assert_eq!([7, 9, 18, 20].map(short), [(0x74, 20), (0x77, 22), (0xeb, 11), (0xeb, 20)]);
        // B.cond has 19 bits of words from bit 5 on, B 26 from bit 0 on (Arm ARM, C6.2).
        let at = |index: usize| (WAIT_AARCH64[index], i64::try_from(index).expect("few"));
        let conditional = |index| {
            let (word, at) = at(index);
            (word >> 24, word & 0xf, at + i64::from((word << 8).cast_signed() >> 13))
        };
        assert_eq!([2, 3].map(conditional), [(0x54, 0, 12), (0x54, 8, 13)]);
        let always = |index| {
            let (word, at) = at(index);
            (word >> 26, at + i64::from((word << 6).cast_signed() >> 6))
        };
        assert_eq!([11, 12].map(always), [(0b00_0101, 4), (0b00_0101, 12)]);
    }

    /// tar(1) gets the program out of the layer, and the kernel runs it.
    fn unpacked() -> Option<tempfile::TempDir> {
        let image = Image::of_this_machine()?;
        let folder = tempfile::tempdir().expect("a folder");
        let tar = folder.path().join("layer.tar");
        std::fs::write(&tar, &image.blobs[1].bytes).expect("writes");
        let status = Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(folder.path()).status();
        assert!(status.expect("tar runs").success());
        Some(folder)
    }

    #[test]
    fn the_program_waits() {
        let Some(folder) = unpacked() else { return };
        let mut child = Command::new(folder.path().join("wait"))
            .stdin(Stdio::null())
            .spawn()
            .expect("the kernel takes it");
        // It is in its system call, or on the way to it: a broken program would have ended by a signal of its own.
        let wchan = format!("/proc/{}/syscall", child.id());
        let waits = |text: String| text.starts_with("34 ") || text.starts_with("73 ");
        let began = std::time::Instant::now();
        while !std::fs::read_to_string(&wchan).is_ok_and(waits) {
            assert_eq!(child.try_wait().expect("is asked"), None, "it ended");
            assert!(began.elapsed() < std::time::Duration::from_mins(1), "it does not wait");
            std::thread::yield_now();
        }
        child.kill().expect("it runs");
        let status = child.wait().expect("it ends");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
    }

    #[test]
    fn told_to_it_ends_or_works() {
        let Some(folder) = unpacked() else { return };
        let command = |words: &[&str]| {
            let mut command = Command::new(folder.path().join("wait"));
            command.args(&words[1..]).stdin(Stdio::null());
            command
        };
        assert!(command(&END).status().expect("the kernel takes it").success());
        let mut child = command(&WORK).spawn().expect("the kernel takes it");
        let used = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it is there");
            crate::overhead::parse::stat(&stat).expect("has figures").used
        };
        let began = std::time::Instant::now();
        while used() < 2 {
            assert!(began.elapsed() < std::time::Duration::from_mins(1), "it does not work");
            std::thread::yield_now();
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
}
