//! Setting a unit's limits through systemd, which would put its own back otherwise; and what it would put back.

mod wire;

use crate::probe::{LimitKind, LimitValue};
use enforcer_gate::{Bytes, Limit, Micros};
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Component, Path};
use std::time::Duration;
use wire::{Answer, HEAD};

pub use wire::Value;

/// systemd's own socket, open to root: no message bus is needed.
const SOCKET: &str = "/run/systemd/private";
const TIME_OUT: Duration = Duration::from_secs(5);
/// Messages that are passed over while waiting for the answer, and how long one may be.
const MESSAGES_MAX: usize = 64;
const MESSAGE_MAX: usize = 1 << 20;
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";
/// Where systemd keeps the properties that somebody set and that outlast a boot (systemctl(1), `set-property`).
const LASTING: &str = "/etc/systemd/system.control";

/// Why systemd did not do it.
#[derive(Debug, thiserror::Error)]
pub enum SystemdError {
    /// It can't be asked.
    #[error("systemd does not answer")]
    Bus(#[source] Error),
    /// It does not do it.
    #[error("systemd refuses it: {name}: {text}")]
    Refused {
        /// The error's name.
        name: String,
        /// What it says.
        text: String,
    },
}

/// How long a property holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// Until the next boot.
    Boot,
    /// For ever.
    Ever,
}

/// The unit of systemd's that a cgroup below the mount belongs to, by its path: all above it are slices. What a
/// container or a user's own systemd made lies below a scope or service.
fn unit_of(path: &Path) -> Option<&str> {
    let mut names = path.components().map(|component| match component {
        Component::Normal(name) => name.to_str(),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    });
    let unit = names.next_back()??;
    let is_unit = matches!(kind(unit), Some("slice" | "scope" | "service"));
    (is_unit && names.all(|name| name.and_then(kind) == Some("slice"))).then_some(unit)
}

/// The same where systemd runs and can be asked; nothing elsewhere, whatever a cgroup is named.
pub fn unit_here(path: &Path) -> Option<&str> {
    unit_of(path).filter(|_| runs())
}

/// What kind of unit has this name.
fn kind(name: &str) -> Option<&str> {
    Some(name.rsplit_once('.')?.1)
}

/// The properties that make a limit.
pub fn properties(file: LimitKind, value: LimitValue) -> Vec<(&'static str, Value)> {
    let number = |name, value: Option<u64>| vec![(name, Value::Number(value.unwrap_or(u64::MAX)))];
    match value {
        LimitValue::Memory(limit) => {
            let name = match file {
                LimitKind::MemoryHigh => "MemoryHigh",
                LimitKind::MemoryLow => "MemoryLow",
                LimitKind::MemoryMin => "MemoryMin",
                LimitKind::SwapMax => "MemorySwapMax",
                LimitKind::MemoryMax
                | LimitKind::CpuMax
                | LimitKind::CpuWeight
                | LimitKind::CpusetCpus
                | LimitKind::PidsMax => "MemoryMax",
            };
            number(
                name,
                match limit {
                    Limit::Bytes(bytes) => Some(bytes.get()),
                    Limit::Max => None,
                },
            )
        }
        LimitValue::Cpu { quota, period } => {
            let a_second = |quota: u64| quota.saturating_mul(1_000_000).checked_div(period.get());
            let mut all = number("CPUQuotaPeriodUSec", Some(period.get()));
            all.extend(number("CPUQuotaPerSecUSec", quota.and_then(|quota| a_second(quota.get()))));
            all
        }
        LimitValue::Weight(weight) => number("CPUWeight", Some(weight)),
        LimitValue::Count(count) => number("TasksMax", count),
        LimitValue::Cpus(cpus) => {
            let bytes = cpus.to_le_bytes();
            let used = 16 - cpus.leading_zeros() as usize / 8;
            vec![("AllowedCPUs", Value::Bytes(bytes[..used].to_vec()))]
        }
    }
}

/// Sets properties of a unit (`SetUnitProperties` of org.freedesktop.systemd1.Manager). `false`: systemd has no such
/// unit.
pub fn set(unit: &str, properties: &[(&str, Value)], lasting: Lasting) -> Result<bool, SystemdError> {
    done(call(unit, properties, lasting).map_err(SystemdError::Bus)?)
}

fn done(answer: Answer) -> Result<bool, SystemdError> {
    match answer {
        Answer::Done | Answer::Other => Ok(true),
        Answer::Refused { name, .. } if name == NO_SUCH_UNIT => Ok(false),
        Answer::Refused { name, text } => Err(SystemdError::Refused { name, text }),
    }
}

/// Has systemd stop a unit (`StopUnit` of org.freedesktop.systemd1.Manager), and does not wait for its end. `false`:
/// systemd has no such unit.
pub fn stop(unit: &str) -> Result<bool, SystemdError> {
    let stopped = || -> Result<Answer, Error> {
        let mut bus = connect()?;
        bus.write_all(&wire::stop_unit(unit))?;
        let (head, rest) = answer(&mut bus)?;
        Ok(wire::answer(&head, &rest))
    };
    done(stopped().map_err(SystemdError::Bus)?)
}

/// Whether systemd runs here and can be asked.
pub fn runs() -> bool {
    Path::new(SOCKET).exists()
}

/// Whether one of these properties of a unit was set so that it outlasts a boot.
pub fn outlasts(unit: &str, properties: &[(&str, Value)]) -> bool {
    let folder = Path::new(LASTING).join(format!("{unit}.d"));
    properties.iter().any(|(name, _)| folder.join(format!("50-{name}.conf")).exists())
}

/// What systemd has of these limits of a unit, and writes whenever it applies any property of it. One that it does not
/// tell, or a unit that it does not have, is left out.
pub fn get(unit: &str, files: &[LimitKind]) -> Result<Vec<(LimitKind, LimitValue)>, SystemdError> {
    let Some(interface) = kind(unit).and_then(interface) else { return Ok(Vec::new()) };
    let read = || -> Result<Vec<(LimitKind, LimitValue)>, Error> {
        let mut bus = connect()?;
        let mut number = |name: &str| -> Result<Option<Value>, Error> {
            bus.write_all(&wire::get_property(unit, interface, name))?;
            let (head, rest) = answer(&mut bus)?;
            Ok(wire::variant(&head, &rest))
        };
        let mut found = Vec::new();
        for file in files {
            let value = match file {
                LimitKind::MemoryMax => number("MemoryMax")?.as_ref().and_then(memory),
                LimitKind::MemoryHigh => number("MemoryHigh")?.as_ref().and_then(memory),
                LimitKind::MemoryMin => number("MemoryMin")?.as_ref().and_then(memory),
                LimitKind::MemoryLow => number("MemoryLow")?.as_ref().and_then(memory),
                LimitKind::SwapMax => number("MemorySwapMax")?.as_ref().and_then(memory),
                LimitKind::PidsMax => number("TasksMax")?
                    .as_ref()
                    .and_then(as_number)
                    .map(|count| LimitValue::Count((count != u64::MAX).then_some(count))),
                LimitKind::CpuWeight => number("CPUWeight")?.as_ref().and_then(as_number).map(|weight| {
                    LimitValue::Weight(if weight == u64::MAX { WEIGHT_DEFAULT } else { weight })
                }),
                LimitKind::CpusetCpus => number("AllowedCPUs")?.as_ref().and_then(cpus),
                LimitKind::CpuMax => {
                    let a_second = number("CPUQuotaPerSecUSec")?.as_ref().and_then(as_number);
                    let period = number("CPUQuotaPeriodUSec")?.as_ref().and_then(as_number);
                    a_second.map(|a_second| cpu(a_second, period))
                }
            };
            found.extend(value.map(|value| (*file, value)));
        }
        Ok(found)
    };
    read().map_err(SystemdError::Bus)
}

/// What systemd writes where nobody set a weight, and for the period where there is no quota.
const WEIGHT_DEFAULT: u64 = 100;
const PERIOD_DEFAULT: u64 = 100_000;
const SECOND: u64 = 1_000_000;

const fn as_number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Bytes(_) => None,
    }
}

fn memory(value: &Value) -> Option<LimitValue> {
    let bytes = as_number(value)?;
    let limit = if bytes == u64::MAX { Limit::Max } else { Limit::Bytes(Bytes::new(bytes).page_floor()) };
    Some(LimitValue::Memory(limit))
}

fn cpu(a_second: u64, period: Option<u64>) -> LimitValue {
    let period = period.filter(|period| *period != u64::MAX).unwrap_or(PERIOD_DEFAULT);
    match a_second {
        u64::MAX => LimitValue::Cpu { quota: None, period: Micros::new(PERIOD_DEFAULT) },
        a_second => {
            let quota = Micros::new(a_second.saturating_mul(period) / SECOND);
            LimitValue::Cpu { quota: Some(quota), period: Micros::new(period) }
        }
    }
}

fn cpus(value: &Value) -> Option<LimitValue> {
    let Value::Bytes(bytes) = value else { return None };
    let mut all = [0; 16];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(LimitValue::Cpus(u128::from_le_bytes(all)))
}

/// The interface of a kind of units that have limits.
fn interface(kind: &str) -> Option<&'static str> {
    match kind {
        "scope" => Some("org.freedesktop.systemd1.Scope"),
        "slice" => Some("org.freedesktop.systemd1.Slice"),
        "service" => Some("org.freedesktop.systemd1.Service"),
        _ => None,
    }
}

fn call(unit: &str, properties: &[(&str, Value)], lasting: Lasting) -> Result<Answer, Error> {
    let mut bus = connect()?;
    bus.write_all(&wire::set_unit_properties(unit, properties, lasting))?;
    let (head, rest) = answer(&mut bus)?;
    Ok(wire::answer(&head, &rest))
}

/// A connection that is ready for calls.
fn connect() -> Result<UnixStream, Error> {
    let mut bus = UnixStream::connect(SOCKET)?;
    bus.set_read_timeout(Some(TIME_OUT))?;
    bus.set_write_timeout(Some(TIME_OUT))?;
    // Our user's number in digits, each of them as the two digits of its code.
    let user = nix::unistd::geteuid().to_string();
    let digits: Vec<_> = user.bytes().map(|digit| format!("{digit:02x}")).collect();
    bus.write_all(format!("\0AUTH EXTERNAL {}\r\n", digits.concat()).as_bytes())?;
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        bus.read_exact(&mut byte)?;
        line.extend(byte);
        if line.len() > 512 {
            return Err(Error::from(ErrorKind::InvalidData));
        }
    }
    if !line.starts_with(b"OK") {
        return Err(Error::from(ErrorKind::PermissionDenied));
    }
    bus.write_all(b"BEGIN\r\n")?;
    Ok(bus)
}

/// The next message that answers a call.
fn answer(bus: &mut UnixStream) -> Result<([u8; HEAD], Vec<u8>), Error> {
    for _ in 0..MESSAGES_MAX {
        let mut head = [0; HEAD];
        bus.read_exact(&mut head)?;
        let length = wire::rest_of(&head).filter(|length| *length <= MESSAGE_MAX);
        let mut rest = vec![0; length.ok_or(ErrorKind::InvalidData)?];
        bus.read_exact(&mut rest)?;
        match wire::answer(&head, &rest) {
            Answer::Other => {}
            Answer::Done | Answer::Refused { .. } => return Ok((head, rest)),
        }
    }
    Err(Error::from(ErrorKind::TimedOut))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::parse;

    #[test]
    fn units_are_known_by_their_path() {
        for (path, unit) in [
            ("system.slice/cron.service", Some("cron.service")),
            ("kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope", Some("cri-containerd-1.scope")),
            ("kubepods.slice", Some("kubepods.slice")),
            ("system.slice/docker-1.scope/init.scope", None),
            ("user.slice/user-0.slice/user@0.service/app.slice/a.service", None),
            ("kubepods/pod1", None),
            ("", None),
        ] {
            assert_eq!(unit_of(Path::new(path)), unit, "{path}");
        }
    }

    #[test]
    fn limits_have_properties() {
        let of = |file, text| properties(file, parse(file, text).unwrap());
        for (file, text, expected) in [
            (LimitKind::MemoryMax, "64Mi", vec![("MemoryMax", Value::Number(64 << 20))]),
            (LimitKind::SwapMax, "max", vec![("MemorySwapMax", Value::Number(u64::MAX))]),
            (
                LimitKind::CpuMax,
                "25000 50000",
                vec![
                    ("CPUQuotaPeriodUSec", Value::Number(50_000)),
                    ("CPUQuotaPerSecUSec", Value::Number(500_000)),
                ],
            ),
            (LimitKind::CpuWeight, "59", vec![("CPUWeight", Value::Number(59))]),
            (LimitKind::CpusetCpus, "0,9", vec![("AllowedCPUs", Value::Bytes(vec![1, 2]))]),
            (LimitKind::CpusetCpus, "", vec![("AllowedCPUs", Value::Bytes(vec![]))]),
            (LimitKind::PidsMax, "7", vec![("TasksMax", Value::Number(7))]),
        ] {
            assert_eq!(of(file, text), expected, "{text}");
        }
    }

    #[test]
    fn what_nobody_set_is_what_systemd_writes() {
        let none = u64::MAX;
        let raw = |value| crate::drift::raw(value).to_string();
        assert_eq!(raw(memory(&Value::Number(none)).unwrap()), "max");
        assert_eq!(raw(memory(&Value::Number(8193)).unwrap()), "8192");
        assert_eq!(memory(&Value::Bytes(vec![])), None);
        assert_eq!(raw(cpu(none, Some(200_000))), "max 100000");
        assert_eq!(raw(cpu(250_000, None)), "25000 100000");
        assert_eq!(raw(cpu(500_000, Some(50_000))), "25000 50000");
        assert_eq!(raw(cpus(&Value::Bytes(vec![1, 2])).unwrap()), "0,9");
        assert_eq!(raw(cpus(&Value::Bytes(vec![])).unwrap()), "");
        assert_eq!(cpus(&Value::Bytes(vec![0; 17])), None);
    }
}
