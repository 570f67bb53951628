//! What happens, as the agent's log has it.

use crate::{admin::model::Happening, cli::json, utc::utc};

/// A line, its end included.
pub(super) fn line(happening: &Happening, as_json: bool) -> String {
    if as_json {
        return json::line(happening);
    }
    let Happening { at_us, target, kind, text } = happening;
    let on = if target.is_empty() { String::new() } else { format!("{target}: ") };
    format!("{} {} {on}{text}\n", utc(*at_us), kind.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::model::HappeningKind;

    #[test]
    fn what_when_and_on_what() {
        let happening = |target: &str| Happening {
            at_us: 1_000_000,
            target: target.into(),
            kind: HappeningKind::Verdict,
            text: "to 64Mi: committed".into(),
        };
        assert_eq!(
            line(&happening("pod/a/b:c"), false),
            "1970-01-01T00:00:01Z verdict pod/a/b:c: to 64Mi: committed\n"
        );
        assert_eq!(line(&happening(""), false), "1970-01-01T00:00:01Z verdict to 64Mi: committed\n");
        assert!(
            line(&happening(""), true).starts_with("{\"at_us\":1000000,\"target\":\"\",\"kind\":\"verdict\"")
        );
    }
}
