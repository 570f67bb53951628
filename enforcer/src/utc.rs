//! Points in time for people: `2026-11-29T20:00:01Z`. No I/O.

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Microseconds since 1970, down to the second, in UTC (RFC 3339).
pub(crate) fn utc(wall_us: u64) -> String {
    let seconds = wall_us / 1_000_000;
    let (year, month, day) = date(seconds / DAY);
    let (hour, minute, second) = (seconds % DAY / 3600, seconds % 3600 / 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day from days since 1970, by eras of 400 years that begin in March, so that the leap day is
/// the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    // 0000-03-01 is 719,468 days before 1970-01-01.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // March is 0; five months have 153 days, all the year round.
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + next_year, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_796_000_000, "2026-11-30T00:53:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds * 1_000_000 + 999_999), text);
        }
    }

    proptest! {
        #[test]
        fn each_day_is_the_one_after_the_day_before(days in 0u64..4_000_000) {
            let ((year, month, day), next) = (date(days), date(days + 1));
            let follows = next == (year, month, day + 1)
                || (day >= 28 && next == (year, month + 1, 1))
                || ((month, day) == (12, 31) && next == (year + 1, 1, 1));
            prop_assert!(follows, "{:?} {:?}", (year, month, day), next);
        }

        #[test]
        fn any_number_is_safe(wall_us: u64) {
            let _ = utc(wall_us);
        }
    }
}
