//! A container's memory as a bar: what stays, what can go, what is free.

use super::theme::Theme;
use enforcer_gate::Bytes;
use ratatui::text::Span;

/// What a bar shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bar {
    pub(super) floor: Bytes,
    pub(super) usage: Bytes,
    /// What the whole bar stands for.
    pub(super) scale: Bytes,
}

impl Bar {
    /// Cells of what stays, what can go, and what is free.
    fn cells(self, width: usize) -> [usize; 3] {
        let upto = |bytes: Bytes| {
            let scale = u128::from(self.scale.get()).max(1);
            let cells = (u128::from(bytes.get()) * width as u128 * 2 + scale) / (scale * 2);
            usize::try_from(cells).unwrap_or(width).min(width)
        };
        let used = upto(self.usage);
        let stays = upto(self.floor).min(used);
        [stays, used - stays, width - used]
    }

    /// As cells of the terminal.
    pub(super) fn spans(self, width: usize, theme: Theme) -> [Span<'static>; 3] {
        let marks = if theme.unicode { ["\u{2588}", "\u{2592}", "\u{b7}"] } else { ["#", "=", "."] };
        let (cells, styles) = (self.cells(width), theme.bar());
        std::array::from_fn(|part| Span::styled(marks[part].repeat(cells[part]), styles[part]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(floor: u64, usage: u64, scale: u64, width: usize, unicode: bool) -> String {
        let bar = Bar { floor: Bytes::new(floor), usage: Bytes::new(usage), scale: Bytes::new(scale) };
        bar.spans(width, Theme { colour: false, unicode }).map(|span| span.content).concat()
    }

    #[test]
    fn what_stays_what_can_go_and_what_is_free() {
        assert_eq!(text(25, 50, 100, 8, false), "##==....");
        assert_eq!(text(25, 50, 100, 8, true), "██▒▒····");
        assert_eq!(text(0, 0, 100, 4, false), "....");
        assert_eq!(text(100, 100, 100, 4, false), "####");
        // More than fits, or nothing to measure it by.
        assert_eq!(text(50, 200, 100, 4, false), "##==");
        assert_eq!(text(90, 50, 100, 4, false), "##..");
        assert_eq!(text(0, 1, 0, 4, false), "====");
        assert_eq!(text(0, 0, 0, 4, false), "....");
        assert_eq!(text(25, 50, 100, 0, false), "");
    }

    proptest! {
        #[test]
        fn it_is_always_as_wide(floor: u64, usage: u64, scale: u64, width in 0usize..200) {
            prop_assert_eq!(text(floor, usage, scale, width, true).chars().count(), width);
        }
    }
}
