//! What a misspelt name was meant to be. No I/O.

/// No name that we have is near to one that is longer.
const CHARS_MAX: usize = 64;

/// The nearest of `names`, if one is near: a third of the letters may differ. Two that are swapped count once, and
/// `-` is as good as `_`.
pub(super) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = letters(name);
    if wanted.len() > CHARS_MAX {
        return None;
    }
    let near = names.map(|name| (distance(&wanted, &letters(name)), name));
    let near = near.filter(|(distance, name)| *distance <= (name.len() / 3).max(1));
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// Whether `name` holds all words of `some`, in a row: `interval_max` has `interval`, and `admin_socket` has `socket`.
pub(super) fn has_words(name: &str, some: &str) -> bool {
    let some: String = letters(some).into_iter().collect();
    !some.is_empty() && format!("_{name}_").contains(&format!("_{some}_"))
}

fn letters(text: &str) -> Vec<char> {
    let plain = |c: char| if c == '-' { '_' } else { c.to_ascii_lowercase() };
    text.chars().map(plain).take(CHARS_MAX + 1).collect()
}

/// Letters to put in, take out, change or swap with the next (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows: [Vec<usize>; 3] = [Vec::new(), (0..=b.len()).collect(), vec![0; b.len() + 1]];
    for (i, from) in a.iter().enumerate() {
        rows[2][0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let change = rows[1][j] + usize::from(from != to);
            let mut least = change.min(rows[1][j + 1] + 1).min(rows[2][j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *to && *from == b[j - 1] {
                least = least.min(rows[0][j - 1] + 1);
            }
            rows[2][j + 1] = least;
        }
        rows.rotate_left(1);
        rows[2].clear();
        rows[2].resize(b.len() + 1, 0);
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
        let names = ["default", "label", "interval", "interval_max", "gain_min"];
        for (name, expected) in [
            ("defualt", Some("default")),
            ("defaults", Some("default")),
            ("lable", Some("label")),
            ("interval-max", Some("interval_max")),
            ("Interval", Some("interval")),
            ("gainmin", Some("gain_min")),
            ("mode", None),
            ("", None),
            (&"default".repeat(20), None),
        ] {
            assert_eq!(nearest(name, names.into_iter()), expected, "{name}");
        }
        assert_eq!(nearest("x", std::iter::empty()), None);
    }

    #[test]
    fn what_is_too_far_does_not_hide_what_is_near() {
        // Both are four letters away, which is too many for the shorter one only.
        assert_eq!(nearest("marg_xxxx", ["m_xxxx", "marg_min_xxxx"].into_iter()), Some("marg_min_xxxx"));
    }

    #[test]
    fn words_in_a_row() {
        for (name, some, has) in [
            ("interval_max", "interval", true),
            ("interval_max", "Max", true),
            ("changes_per_hour", "per-hour", true),
            ("changes_per_hour", "changes_hour", false),
            ("margin_min", "marg", false),
            ("margin", "margin", true),
            ("margin", "", false),
        ] {
            assert_eq!(has_words(name, some), has, "{name} {some}");
        }
    }

    #[test]
    fn how_far() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("ab", "ba", 1),
            ("abc", "abd", 1),
            ("kitten", "sitting", 3),
        ] {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(distance(&letters(a), &letters(b)), expected, "{a} {b}");
        }
    }
}
