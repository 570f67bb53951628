//! Plain tables: columns as wide as their widest cell, two blanks between them.

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// Rows as text, each indented by `indent` blanks. The last column is not padded.
pub(super) fn table<const N: usize>(indent: usize, align: [Align; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = " ".repeat(indent);
        for column in 0..N {
            let cell = &row[column];
            let fill = " ".repeat(widths[column] - cell.chars().count());
            match align[column] {
                Align::Left => line.extend([cell.as_str(), &fill, "  "]),
                Align::Right => line.extend([fill.as_str(), cell, "  "]),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["a", "1", "x"], ["bcd", "22", ""]].map(|row| row.map(String::from));
        let text = table(2, [Align::Left, Align::Right, Align::Left], &rows);
        assert_eq!(text, "  a     1  x\n  bcd  22\n");
        assert_eq!(table(2, [Align::Left; 1], &[]), "");
    }
}
