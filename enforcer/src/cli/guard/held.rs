//! After a refused write of systemd's: what it holds now.

use crate::cgroup::shown as path;
use crate::cli::{failure::chain, json};
use crate::drift::{raw, shown};
use crate::guard::Kept;
use serde::Serialize;

#[derive(Serialize)]
struct Fields<'a> {
    event: &'a str,
    cgroup: &'a str,
    cgroup_id: u64,
    file: &'a str,
    /// What systemd holds now.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// `None` where systemd has no such unit.
pub(super) fn line(Kept { id, file, cgroup, done }: &Kept, as_json: bool) -> Option<String> {
    let cgroup = &path(cgroup);
    let (value, why) = match done {
        Ok(None) => return None,
        Ok(Some(value)) => (Some(*value), None),
        Err(error) => (None, Some(chain(error))),
    };
    let file = file.name();
    if as_json {
        let event = if value.is_some() { "kept" } else { "not kept" };
        let value = value.map(|value| raw(value).to_string());
        return Some(json::line(&Fields { event, cgroup, cgroup_id: id.get(), file, value, why }));
    }
    Some(match (value, why) {
        (Some(value), _) => format!("kept: systemd holds {} for {cgroup} {file} again\n", shown(value)),
        (None, why) => format!(
            "not kept: systemd holds what was denied for {cgroup} {file} ({}), and sets it when the guard has gone\n",
            why.unwrap_or_default()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::{MendError, parse};
    use crate::probe::LimitKind;
    use enforcer_gate::CgroupId;

    #[test]
    fn what_systemd_holds_is_told() {
        let (id, file) = (CgroupId::new(7), LimitKind::MemoryMax);
        let kept = |done| Kept { id, file, cgroup: "/c/a.scope".into(), done };
        let value = parse(LimitKind::MemoryMax, "128Mi");
        assert_eq!(line(&kept(Ok(None)), false), None);
        assert_eq!(
            line(&kept(Ok(value)), false).as_deref(),
            Some("kept: systemd holds 128Mi for /c/a.scope memory.max again\n")
        );
        assert_eq!(
            line(&kept(Ok(value)), true).as_deref(),
            Some(
                "{\"event\":\"kept\",\"cgroup\":\"/c/a.scope\",\"cgroup_id\":7,\"file\":\"memory.max\",\
                 \"value\":\"134217728\"}\n"
            )
        );
        let failed = line(&kept(Err(MendError::Lowers)), true).expect("a line");
        assert!(failed.contains("\"not kept\"") && failed.contains("\"why\":\"it would"), "{failed}");
    }
}
