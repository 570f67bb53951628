//! Amounts of what can be resized in place: memory and CPU, and nothing else. No I/O.

use crate::{
    quantity::{exact, parse_bytes, parse_milli_cpu},
    resize::MilliCpu,
};
use enforcer_gate::Bytes;
use k8s_openapi::{api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity};
use serde::Serialize;
use std::{collections::BTreeMap, fmt};

/// A list of resources as the API has it.
pub(crate) type QuantityList = BTreeMap<String, Quantity>;

/// What can be resized in place (KEP-1287).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// In bytes.
    Memory,
    /// In thousandths of a CPU.
    Cpu,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Cpu];

    /// As the API names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
        }
    }

    /// An amount of it, in bytes or thousandths, for people.
    pub fn shown(self, amount: u64) -> String {
        match self {
            Self::Memory => Bytes::new(amount).to_string(),
            Self::Cpu => MilliCpu::new(amount).to_string(),
        }
    }

    /// An amount of it as a quantity that loses nothing.
    pub fn quantity(self, amount: u64) -> String {
        match self {
            Self::Memory => exact(Bytes::new(amount)),
            Self::Cpu => MilliCpu::new(amount).to_string(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// So much memory and CPU, each as far as it is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// In thousandths of a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<MilliCpu>,
}

impl Amounts {
    /// From the API. What is no quantity is left out: the API server lets none in.
    pub fn of(list: Option<&QuantityList>) -> Self {
        let text =
            |kind: Kind| list.and_then(|list| list.get(kind.name())).map(|quantity| quantity.0.as_str());
        Self {
            memory: text(Kind::Memory).and_then(|text| parse_bytes(text).ok()),
            cpu: text(Kind::Cpu).and_then(|text| parse_milli_cpu(text).ok()).map(MilliCpu::new),
        }
    }

    /// Of one resource, in bytes or thousandths.
    pub fn get(&self, kind: Kind) -> Option<u64> {
        match kind {
            Kind::Memory => self.memory.map(Bytes::get),
            Kind::Cpu => self.cpu.map(MilliCpu::get),
        }
    }

    /// The same with this amount of one resource.
    #[must_use]
    pub fn with(mut self, kind: Kind, amount: Option<u64>) -> Self {
        match kind {
            Kind::Memory => self.memory = amount.map(Bytes::new),
            Kind::Cpu => self.cpu = amount.map(MilliCpu::new),
        }
        self
    }

    /// Neither is said.
    pub fn is_empty(&self) -> bool {
        self.memory.is_none() && self.cpu.is_none()
    }

    /// The sum; what only one side says is that.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.joined(other, u64::saturating_add)
    }

    /// The greater of each; what only one side says is that.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        self.joined(other, u64::max)
    }

    /// These, and where one is not said, that of `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { memory: self.memory.or(other.memory), cpu: self.cpu.or(other.cpu) }
    }

    fn joined(self, other: Self, join: fn(u64, u64) -> u64) -> Self {
        Kind::ALL.iter().fold(Self::default(), |sum, kind| {
            let both = match (self.get(*kind), other.get(*kind)) {
                (Some(one), Some(two)) => Some(join(one, two)),
                (one, two) => one.or(two),
            };
            sum.with(*kind, both)
        })
    }
}

/// Requests and limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Resources {
    /// What is set aside for it.
    pub requests: Amounts,
    /// What it may use at most.
    pub limits: Amounts,
}

impl Resources {
    /// From the API.
    pub fn of(requirements: Option<&ResourceRequirements>) -> Self {
        let Some(requirements) = requirements else { return Self::default() };
        Self {
            requests: Amounts::of(requirements.requests.as_ref()),
            limits: Amounts::of(requirements.limits.as_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(memory: Option<u64>, cpu: Option<u64>) -> Amounts {
        Amounts { memory: memory.map(Bytes::new), cpu: cpu.map(MilliCpu::new) }
    }

    #[test]
    fn quantities_are_read_as_kubernetes_does() {
        let list = [("memory", "1.5Ki"), ("cpu", "0"), ("nvidia.com/gpu", "1")];
        let list = list.map(|(name, text)| (name.into(), Quantity(text.into()))).into();
        assert_eq!(Amounts::of(Some(&list)), amounts(Some(1536), Some(0)));
        let odd = [("memory", "-1"), ("cpu", "\u{1b}[2J")];
        let odd = odd.map(|(name, text)| (name.into(), Quantity(text.into()))).into();
        assert_eq!(Amounts::of(Some(&odd)), Amounts::default());
        assert_eq!(Amounts::of(None), Amounts::default());
    }

    #[test]
    fn what_only_one_side_says_counts() {
        let (one, two) = (amounts(Some(3), None), amounts(Some(5), Some(7)));
        assert_eq!(one.plus(two), amounts(Some(8), Some(7)));
        assert_eq!(one.most(two), two);
        assert_eq!(two.most(one), two);
        assert_eq!(one.or(two), amounts(Some(3), Some(7)));
        assert_eq!(amounts(Some(u64::MAX), None).plus(two).memory, Some(Bytes::new(u64::MAX)));
    }
}
