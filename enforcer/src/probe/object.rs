//! The object with the kernel programs: loading it, and attaching single programs.

use super::btf::KERNEL_BTF;
use super::error::ProbeError;
use super::hooks::{Attachment, Point};
use super::options::ProbeOptions;
use super::stat_table;
use super::summary::Summary;
use crate::node::Release;
use aya::programs::{BtfTracePoint, FEntry, FExit, KProbe, Lsm, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use enforcer_abi::{Field, Grammar, Program};
use std::error::Error;
use std::io;

/// The kernel programs, as built by `build.rs`.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/enforcer-ebpf.o"));

/// What built [`OBJECT`].
pub const ORIGIN: &str = env!("ENFORCER_EBPF_ORIGIN");

/// The loaded object.
pub(crate) struct Object {
    pub(crate) ebpf: Ebpf,
    btf: Btf,
}

impl Object {
    /// Makes the maps, and the globals read-only with this kernel's offsets in them. Loads no program.
    pub(crate) fn load(options: &ProbeOptions, kernel: &Summary) -> Result<Self, ProbeError> {
        let btf = Btf::parse_file(KERNEL_BTF, aya::Endianness::default())
            .map_err(|error| failed(aya::EbpfError::BtfError(error)))?;
        let mut offsets = kernel.to_offsets();
        let wanted = options.keep_past && kernel.offset(Field::VmstatsState).is_some();
        let table = if wanted && kernel.stats_have_a_table { stat_table::address() } else { None };
        if !wanted || (kernel.stats_have_a_table && table.is_none()) {
            // Counters that can't be told apart are not read.
            offsets.set(Field::MemcgVmstats, 0);
        }
        let stat_table = table.unwrap_or(0);
        let offsets = offsets.to_bytes();
        let keep_past = [u8::from(options.keep_past)];
        let strict = [u8::from(Release::running().limit_grammar() == Grammar::Strict)];
        let measure = [u8::from(options.measure)];
        // Where they can't be counted, only what every mask of CPUs has is read.
        let cpus =
            aya::util::nr_cpus().map_or(1, |cpus| u32::try_from(cpus).unwrap_or(u32::MAX)).to_ne_bytes();
        let ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("OFFSETS", offsets.as_slice(), true)
            .override_global("MEASURE", measure.as_slice(), true)
            .override_global("CPUS", cpus.as_slice(), true)
            .override_global("STRICT", strict.as_slice(), true)
            .override_global("KEEP_PAST", keep_past.as_slice(), true)
            .override_global("STAT_TABLE", stat_table.to_ne_bytes().as_slice(), true)
            .map_max_entries("EVENTS", options.ring_bytes)
            .map_max_entries("WATCHED", options.watched_max)
            .map_max_entries("GUARDED", options.guarded_max)
            .map_max_entries("LEASES", options.guarded_max)
            .load(OBJECT)
            .map_err(failed)?;
        Ok(Self { ebpf, btf })
    }

    /// Loads and attaches one program. The error's text is for people.
    pub(crate) fn attach(&mut self, attachment: &Attachment) -> Result<(), String> {
        self.verify(attachment)?;
        let point = attachment.point;
        let result = match point {
            Point::Fentry(_) => self.program::<FEntry>(attachment.program)?.attach().map(drop),
            Point::Fexit(_) => self.program::<FExit>(attachment.program)?.attach().map(drop),
            Point::Kprobe(name) => self.program::<KProbe>(attachment.program)?.attach(name, 0).map(drop),
            Point::TpBtf(_) => self.program::<BtfTracePoint>(attachment.program)?.attach().map(drop),
            Point::Lsm(_) => self.program::<Lsm>(attachment.program)?.attach().map(drop),
        };
        result.map_err(|error| format!("can't attach to {point}: {}", explain(&error)))
    }

    /// Loads one program, so that the verifier looks at it.
    pub(crate) fn verify(&mut self, attachment: &Attachment) -> Result<(), String> {
        let point = attachment.point;
        // Parsed once and only read from here on.
        let Self { ebpf, btf } = self;
        let program = find(ebpf, attachment.program)?;
        let result = match point {
            Point::Fentry(name) => typed::<FEntry>(program)?.load(name, btf),
            Point::Fexit(name) => typed::<FExit>(program)?.load(name, btf),
            Point::Kprobe(_) => typed::<KProbe>(program)?.load(),
            Point::TpBtf(name) => typed::<BtfTracePoint>(program)?.load(name, btf),
            Point::Lsm(name) => typed::<Lsm>(program)?.load(name, btf),
        };
        match result {
            // Loaded for another hook that did not come off.
            Ok(()) | Err(ProgramError::AlreadyLoaded) => Ok(()),
            Err(error) => {
                Err(format!("can't load {} for {point}: {}", attachment.program.name(), explain(&error)))
            }
        }
    }

    /// Takes a program out of the kernel again.
    pub(crate) fn unload(&mut self, program: Program) {
        if let Some(program) = self.ebpf.program_mut(program.name()) {
            // Nothing to do about a failure: closing the descriptor does the same at exit.
            let _ = program.unload_all();
        }
    }

    fn program<'a, P>(&'a mut self, program: Program) -> Result<&'a mut P, String>
    where
        &'a mut P: TryFrom<&'a mut aya::programs::Program>,
    {
        typed(find(&mut self.ebpf, program)?)
    }
}

trait UnloadAll {
    fn unload_all(&mut self) -> Result<(), ProgramError>;
}

impl UnloadAll for aya::programs::Program {
    #[expect(clippy::wildcard_enum_match_arm, reason = "aya's enum has every program type there is")]
    fn unload_all(&mut self) -> Result<(), ProgramError> {
        match self {
            Self::FEntry(program) => program.unload(),
            Self::FExit(program) => program.unload(),
            Self::KProbe(program) => program.unload(),
            Self::BtfTracePoint(program) => program.unload(),
            Self::Lsm(program) => program.unload(),
            _ => Ok(()),
        }
    }
}

fn find(ebpf: &mut Ebpf, program: Program) -> Result<&mut aya::programs::Program, String> {
    ebpf.program_mut(program.name()).ok_or_else(|| ProbeError::NotInObject(program.name()).to_string())
}

fn typed<'a, P>(program: &'a mut aya::programs::Program) -> Result<&'a mut P, String>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program>,
{
    <&mut P>::try_from(program).map_err(|_| "the object holds it as another type of program".to_owned())
}

/// An error and all its causes in one line; of a verifier log only the end, where it says what is wrong.
fn explain(error: &(dyn Error + 'static)) -> String {
    const LOG_LINES: usize = 4;
    if let Some(ProgramError::LoadError { io_error, verifier_log }) = error.downcast_ref() {
        let log = verifier_log.to_string();
        // What the verifier counted comes last, and says nothing of what is wrong.
        let counted = ["verification time", "stack depth", "processed "];
        let tells =
            |line: &&str| !line.trim().is_empty() && !counted.iter().any(|word| line.starts_with(word));
        let lines: Vec<&str> = log.lines().filter(tells).collect();
        let tail = lines[lines.len().saturating_sub(LOG_LINES)..].join(" | ");
        return if tail.is_empty() {
            format!("the kernel says {io_error}")
        } else {
            format!("the kernel says {io_error}: {tail}")
        };
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

/// Sorts out a refusal from the other reasons why the object can't be loaded.
fn failed(error: aya::EbpfError) -> ProbeError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>()
            && io.kind() == io::ErrorKind::PermissionDenied
        {
            return ProbeError::NotPermitted { what: explain(&error) };
        }
        cause = inner.source();
    }
    ProbeError::Object(Box::new(error))
}
