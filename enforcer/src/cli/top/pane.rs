//! What is read and scrolled through: help, and the explanation of a container. No I/O.

use super::{
    row::cells,
    state::{App, Pane},
};
use crate::{cgroup::printable, cli::explain};

/// What each key does; docs/top.md has the same.
pub(super) const HELP: &str = "\
keys
  q, Esc        end (in a pane: back to the list)
  j, k, arrows  down and up; Space and PageUp by pages; g first, G last
  Enter         explain the container: why it is at its limit
  p             sort by pressure, by usage, by name
  o             all that happened, or OOM kills only
  P             pause all actuation, or let it go on; asks first
  ?             this help

columns
  PSI %   share of the last ten seconds in which some task waited for memory
  FLOOR   what stays whatever is reclaimed
  SAFE    the lowest limit that the gate would let in
  LIMIT   the limit in force
  bar     of the limit: # stays, = can be reclaimed, . is free; a container
          without a limit is measured by the largest of those
  OOM     OOM kills that the agent saw in it
  STATE   what is in flight, else what drifted, else what the policy waits for
";

/// Lines that a pane shows at once: all but its title and the keys.
pub(super) fn page(size: (u16, u16)) -> usize {
    usize::from(size.1).saturating_sub(2)
}

/// The text of the pane in front, in lines that fit.
pub(super) fn text(app: &App) -> Vec<String> {
    let text = match &app.pane {
        Pane::List | Pane::Confirm(_) => return Vec::new(),
        Pane::Help { .. } => HELP.to_owned(),
        Pane::Explain(explain) => match &explain.told {
            Ok(explanation) => explain::render(explanation),
            Err(why) => format!("{}\n  {}\n", printable(&explain.target), printable(why)),
        },
    };
    let width = usize::from(app.size.0).max(1);
    text.lines().flat_map(|line| wrapped(line, width)).collect()
}

/// At blanks where there are some; what goes on is indented a little more.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let more = " ".repeat((indent + 2).min(width / 2));
    let mut lines = Vec::new();
    let mut rest = line.to_owned();
    while cells(&rest) > width {
        let mut end = 0;
        for (at, c) in rest.char_indices() {
            let next = at + c.len_utf8();
            if cells(&rest[..next]) > width && end > 0 {
                break;
            }
            end = next;
        }
        let blank = rest[..end].rfind(' ').filter(|blank| *blank > more.len());
        let after = rest.split_off(blank.unwrap_or(end));
        lines.push(std::mem::replace(&mut rest, format!("{more}{}", after.trim_start_matches(' '))));
        if cells(&rest) > width && rest.trim_start().chars().nth(1).is_none() {
            break;
        }
    }
    lines.push(rest);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_page_says_what_the_help_says() {
        let page = include_str!("../../../../docs/top.md");
        assert!(page.contains(HELP));
        assert!(HELP.lines().all(|line| cells(line) <= 78));
    }

    #[test]
    fn lines_break_at_blanks() {
        assert_eq!(wrapped("a b", 3), ["a b"]);
        assert_eq!(wrapped("  one two three", 10), ["  one two", "    three"]);
        assert_eq!(wrapped("abcdefghijkl", 8), ["abcdefgh", "  ijkl"]);
        assert_eq!(wrapped("", 8), [""]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_too_wide(line in "( |[a-zä日]){0,80}", width in 8usize..40) {
            let lines = wrapped(&line, width);
            prop_assert!(lines.iter().all(|line| cells(line) <= width), "{:?}", lines);
            let bare = |text: &str| text.replace(' ', "");
            prop_assert_eq!(bare(&lines.concat()), bare(&line));
        }
    }
}
