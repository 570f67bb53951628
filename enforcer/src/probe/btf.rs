//! Reads the running kernel's BTF into a [`Summary`].
#![expect(clippy::wildcard_enum_match_arm, reason = "btf-rs's enums have every kind of type and error")]

use super::error::ProbeError;
use super::hooks::Need;
use super::places::{Place, place};
use super::summary::Summary;
use btf_rs::{Btf, BtfType, Type};
use enforcer_abi::Field;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::OnceLock;

/// Where a kernel built with `CONFIG_DEBUG_INFO_BTF` shows its types.
pub(crate) const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// A kernel's types take some 5 MB; what is longer is cut off, and then refused as malformed.
const BTF_BYTES_MAX: u64 = 256 << 20;

/// Nesting of members, and of typedefs and qualifiers, that is followed.
const DEPTH_MAX: usize = 16;

/// The running kernel's summary. It can't change before a reboot, so it is made once.
pub(crate) fn running_kernel() -> Result<Summary, ProbeError> {
    static SUMMARY: OnceLock<Summary> = OnceLock::new();
    if let Some(summary) = SUMMARY.get() {
        return Ok(summary.clone());
    }
    let summary = read(Path::new(KERNEL_BTF))?;
    Ok(SUMMARY.get_or_init(|| summary).clone())
}

/// Reads a BTF file.
pub(crate) fn read(path: &Path) -> Result<Summary, ProbeError> {
    let btf = parse(path).map_err(|error| match error {
        btf_rs::Error::IO(source) if source.kind() == std::io::ErrorKind::NotFound => {
            ProbeError::NoBtf { path: path.into() }
        }
        source => ProbeError::Btf { path: path.into(), source },
    })?;
    Ok(summarize(&btf))
}

/// Read whole first: parsing asks for its place in the file at each of 100,000 types, a system call each.
fn parse(path: &Path) -> Result<Btf, btf_rs::Error> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BTF_BYTES_MAX).read_to_end(&mut bytes)?;
    Btf::from_bytes(&bytes)
}

/// Looks up everything that a hook asks about.
fn summarize(btf: &Btf) -> Summary {
    let types = Types(btf);
    let mut summary = Summary::default();
    for attachment in Need::ALL.iter().flat_map(|need| need.hooks()).flat_map(|hook| hook.attachments) {
        if let Some(name) = attachment.point.tracepoint()
            && let Some(arguments) = types.tracepoint(name)
        {
            summary.tracepoints.insert(name.to_owned(), arguments);
        }
        if let Some(name) = attachment.point.function()
            && let Some(arguments) = types.function(&name)
        {
            summary.functions.insert(name, arguments);
        }
    }
    summary.stats_have_a_table = types.stats_have_a_table().unwrap_or(true);
    summary.offsets =
        Field::ALL.iter().filter_map(|field| Some((*field, types.value(place(*field))?))).collect();
    summary
}

struct Types<'a>(&'a Btf);

impl Types<'_> {
    fn named(&self, name: &str) -> Vec<Type> {
        self.0.resolve_types_by_name(name).unwrap_or_default()
    }

    fn structure(&self, name: &str) -> Option<btf_rs::Struct> {
        self.named(name).into_iter().find_map(|found| match found {
            Type::Struct(structure) => Some(structure),
            _ => None,
        })
    }

    /// What a type is behind typedefs and qualifiers.
    fn plain(&self, id: u32) -> Option<Type> {
        let mut found = self.0.resolve_type_by_id(id).ok()?;
        for _ in 0..DEPTH_MAX {
            found = match &found {
                Type::Typedef(inner) => self.0.resolve_chained_type(inner).ok()?,
                Type::Const(inner) | Type::Volatile(inner) => self.0.resolve_chained_type(inner).ok()?,
                Type::TypeTag(inner) => self.0.resolve_chained_type(inner).ok()?,
                _ => return Some(found),
            };
        }
        None
    }

    /// A type's name as [`Summary`] writes it.
    fn name(&self, id: u32) -> String {
        match self.plain(id) {
            None | Some(Type::Void) => "void".to_owned(),
            Some(Type::Ptr(pointer)) => {
                let target = pointer.get_type_id().map_or_else(|| "void".into(), |id| self.target_name(id));
                format!("{target}*")
            }
            Some(other) => self.own_name(&other),
        }
    }

    /// The name of what a pointer points to; a pointer to a pointer is no argument that a hook asks about.
    fn target_name(&self, id: u32) -> String {
        match self.plain(id) {
            None | Some(Type::Void) => "void".to_owned(),
            Some(Type::Ptr(_)) => "*".to_owned(),
            Some(other) => self.own_name(&other),
        }
    }

    fn own_name(&self, of: &Type) -> String {
        of.as_btf_type().and_then(|of| self.0.resolve_name(of).ok()).unwrap_or_default()
    }

    fn arguments(&self, prototype: &Type) -> Option<Vec<String>> {
        let Type::FuncProto(prototype) = prototype else { return None };
        Some(
            prototype
                .parameters
                .iter()
                .map(|parameter| parameter.get_type_id().map_or_else(String::new, |id| self.name(id)))
                .collect(),
        )
    }

    fn function(&self, name: &str) -> Option<Vec<String>> {
        self.named(name).into_iter().find_map(|found| match found {
            Type::Func(function) => self.arguments(&self.0.resolve_chained_type(&function).ok()?),
            _ => None,
        })
    }

    /// A tracepoint is known by `typedef void (*btf_trace_NAME)(void *, ...)`.
    fn tracepoint(&self, name: &str) -> Option<Vec<String>> {
        self.named(&format!("btf_trace_{name}")).into_iter().find_map(|found| {
            let Type::Typedef(typedef) = found else { return None };
            let Type::Ptr(pointer) = self.0.resolve_chained_type(&typedef).ok()? else { return None };
            let mut arguments = self.arguments(&self.0.resolve_chained_type(&pointer).ok()?)?;
            if arguments.is_empty() {
                return None;
            }
            arguments.remove(0);
            Some(arguments)
        })
    }

    fn value(&self, place: Place) -> Option<u32> {
        match place {
            Place::Member(structure, paths) => {
                let structure = self.structure(structure)?;
                paths.iter().find_map(|path| Some(self.member(&structure, path)?.0))
            }
            Place::Element(structure, member, index) => {
                let (offset, array) = self.member(&self.structure(structure)?, member)?;
                Some(offset + self.enumerator(index)? * self.element(array)?.0)
            }
            Place::Counter(index) => {
                let mm = self.structure("mm_struct")?;
                let (offset, array) =
                    self.member(&mm, "rss_stat.count").or_else(|| self.member(&mm, "rss_stat"))?;
                let (size, element) = self.element(array)?;
                // Since 6.2 each counter is a `struct percpu_counter`, before it is a bare number.
                let inner = match self.plain(element)? {
                    Type::Struct(counter) => self.member(&counter, "count").map_or(0, |found| found.0),
                    _ => 0,
                };
                Some(offset + self.enumerator(index)? * size + inner)
            }
            Place::Size(structure) => u32::try_from(self.structure(structure)?.size()).ok(),
            Place::Enumerator(name) => self.enumerator(name),
            Place::Pointer(structure, member) => {
                let (offset, id) = self.member(&self.structure(structure)?, member)?;
                matches!(self.plain(id)?, Type::Ptr(_)).then_some(offset)
            }
        }
    }

    /// Offset in bytes and type id of a member by its dotted path.
    fn member(&self, structure: &btf_rs::Struct, path: &str) -> Option<(u32, u32)> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let (offset, id) = self.own_member(structure, first, DEPTH_MAX)?;
        let Some(rest) = rest else { return Some((offset, id)) };
        match self.plain(id)? {
            Type::Struct(inner) | Type::Union(inner) => {
                let (inner_offset, id) = self.member(&inner, rest)?;
                Some((offset + inner_offset, id))
            }
            _ => None,
        }
    }

    /// A member by its own name, also inside members without a name.
    fn own_member(&self, structure: &btf_rs::Struct, name: &str, depth: usize) -> Option<(u32, u32)> {
        if depth == 0 {
            return None;
        }
        structure.members.iter().find_map(|member| {
            let id = member.get_type_id()?;
            let offset = member.bit_offset() / 8;
            let found = self.0.resolve_name(member).unwrap_or_default();
            if found == name {
                // A bit field has no address.
                return (member.bitfield_size().unwrap_or(0) == 0).then_some((offset, id));
            }
            if !found.is_empty() {
                return None;
            }
            match self.plain(id)? {
                Type::Struct(inner) | Type::Union(inner) => {
                    let (inner_offset, id) = self.own_member(&inner, name, depth - 1)?;
                    Some((offset + inner_offset, id))
                }
                _ => None,
            }
        })
    }

    /// Size in bytes and type id of an array's elements.
    fn element(&self, array: u32) -> Option<(u32, u32)> {
        let Type::Array(array) = self.plain(array)? else { return None };
        let id = array.get_type_id()?;
        let size = match self.plain(id)? {
            Type::Ptr(_) => size_of::<u64>(),
            Type::Struct(structure) | Type::Union(structure) => structure.size(),
            Type::Int(int) => int.size(),
            _ => return None,
        };
        Some((u32::try_from(size).ok()?, id))
    }

    /// Whether a cgroup's counters lie in another order than that of their numbers (since 6.10): then there are
    /// fewer places than numbers.
    fn stats_have_a_table(&self) -> Option<bool> {
        let (_, array) = self.member(&self.structure("memcg_vmstats")?, "state")?;
        let Type::Array(array) = self.plain(array)? else { return None };
        Some(u64::from(self.enumerator("MEMCG_NR_STAT")?) > u64::try_from(array.len()).ok()?)
    }

    /// The value of an enumerator, looked for in the enums whose elements are indexes, and in those without
    /// a name.
    fn enumerator(&self, name: &str) -> Option<u32> {
        let mut enums = self.named("cgroup_subsys_id");
        enums.extend(self.named("memcg_memory_event"));
        enums.extend(self.named("node_stat_item"));
        enums.extend(self.named("memcg_stat_item"));
        enums.extend(self.named(""));
        enums.iter().find_map(|found| {
            let Type::Enum(found) = found else { return None };
            let member = found
                .members
                .iter()
                .find(|member| self.0.resolve_name(*member).is_ok_and(|found| found == name))?;
            Some(member.val())
        })
    }
}
