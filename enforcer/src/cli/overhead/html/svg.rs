//! Just enough of SVG for charts with two axes. What is written is well-formed, whatever the texts.

use std::fmt::Write as _;

/// Size of a chart and of the margins that its axes take, in pixels.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
/// About as many marks as an axis has.
const MARKS: f64 = 6.0;

/// `text` fit for the content of an element and for a value in double quotes. Characters that XML has no place for are
/// left out.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            _ if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            _ => escaped.push(c),
        }
    }
    escaped
}

/// What an axis shows: from `low` to `high`, which differ, with a mark at each multiple of `step`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    step: f64,
}

impl Axis {
    /// One on which all of `values` lie, and zero.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let (mut low, mut high) = (0.0_f64, 0.0_f64);
        for value in values.into_iter().filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if high - low < f64::MIN_POSITIVE {
            high = low + 1.0;
        }
        let rough = (high - low) / MARKS;
        let power = 10.0_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0].iter().map(|times| times * power).find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        Self { low: (low / step).floor() * step, high: (high / step).ceil() * step, step }
    }

    fn marks(self) -> impl Iterator<Item = f64> {
        let count = ((self.high - self.low) / self.step).round();
        (0..=100_u8)
            .map(f64::from)
            .take_while(move |mark| *mark <= count)
            .map(move |mark| self.low + mark * self.step)
    }

    fn part(self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// A chart that is drawn.
#[derive(Debug)]
pub(super) struct Chart {
    x: Axis,
    y: Axis,
    body: String,
}

impl Chart {
    /// An empty one; `label` says what it shows to who can't see it.
    pub(super) fn new(label: &str, (x, x_name): (Axis, &str), (y, y_name): (Axis, &str)) -> Self {
        let mut chart = Self { x, y, body: String::new() };
        // Writing to a String can't fail.
        let _ = writeln!(
            chart.body,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(label)
        );
        for mark in y.marks() {
            chart.raw_line((LEFT, chart.at_y(mark)), (WIDTH - RIGHT, chart.at_y(mark)), "grid");
            chart.raw_text((LEFT - 6.0, chart.at_y(mark) + 4.0), "end", &number(mark, y.step));
        }
        for mark in x.marks() {
            chart.raw_text((chart.at_x(mark), HEIGHT - BOTTOM + 16.0), "middle", &number(mark, x.step));
        }
        chart.raw_line((LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM), "axis");
        chart.raw_text((f64::midpoint(LEFT, WIDTH - RIGHT), HEIGHT - 8.0), "middle", x_name);
        let middle = f64::midpoint(TOP, HEIGHT - BOTTOM);
        let _ = writeln!(
            chart.body,
            "<text transform=\"translate(14 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escape(y_name)
        );
        chart
    }

    fn at_x(&self, value: f64) -> f64 {
        LEFT + self.x.part(value) * (WIDTH - LEFT - RIGHT)
    }

    fn at_y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.part(value) * (HEIGHT - TOP - BOTTOM)
    }

    /// A bar from `from` to `to` high, with what is said of it when it is pointed at.
    pub(super) fn bar(&mut self, (left, right): (f64, f64), (from, to): (f64, f64), class: &str, says: &str) {
        let (left, right, top) = (self.at_x(left), self.at_x(right), self.at_y(to));
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
            (right - left).max(0.5),
            (self.at_y(from) - top).max(0.0),
            escape(says)
        );
    }

    /// A dot.
    pub(super) fn dot(&mut self, (x, y): (f64, f64), class: &str, says: &str) {
        let _ = writeln!(
            self.body,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}</title></circle>",
            self.at_x(x),
            self.at_y(y),
            escape(says)
        );
    }

    /// A line between two points of the axes.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ends = [from, to].map(|(x, y)| (self.at_x(x), self.at_y(y)));
        self.raw_line(ends[0], ends[1], class);
    }

    /// An area between corners.
    pub(super) fn area(&mut self, corners: &[(f64, f64)], class: &str) {
        let points = corners.iter().map(|(x, y)| format!("{:.1},{:.1}", self.at_x(*x), self.at_y(*y)));
        let points: Vec<_> = points.collect();
        let _ = writeln!(self.body, "<polygon class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    /// A line across the whole height, with its name beside its `row`th line of text.
    pub(super) fn mark(&mut self, x: f64, row: u8, class: &str, name: &str) {
        self.line((x, self.y.low), (x, self.y.high), class);
        self.raw_text((self.at_x(x) + 4.0, TOP + 10.0 + 14.0 * f64::from(row)), "start", name);
    }

    fn raw_line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    fn raw_text(&mut self, (x, y): (f64, f64), anchor: &str, text: &str) {
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escape(text)
        );
    }

    /// All of it.
    pub(super) fn end(mut self) -> String {
        self.body.push_str("</svg>\n");
        self.body
    }
}

/// With as many places as the marks of an axis need.
fn number(value: f64, step: f64) -> String {
    let places = if step >= 1.0 { 0 } else { 2 };
    format!("{:.places$}", if value.abs() < step / 2.0 { 0.0 } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn marks_are_round_and_hold_all() {
        for (values, low, high, step) in [
            (vec![0.0, 12.7], 0.0, 15.0, 5.0),
            (vec![3.0], 0.0, 3.0, 0.5),
            (vec![], 0.0, 1.0, 0.2),
            (vec![-2.0, 9.0], -2.0, 10.0, 2.0),
        ] {
            assert_eq!(Axis::of(values), Axis { low, high, step });
        }
    }

    proptest! {
        #[test]
        fn every_value_is_on_its_axis(values in proptest::collection::vec(-1e12..1e12_f64, 0..20)) {
            let axis = Axis::of(values.clone());
            for value in values {
                prop_assert!(axis.low <= value && value <= axis.high, "{value} {axis:?}");
            }
            prop_assert!((2..=12).contains(&axis.marks().count()), "{axis:?}");
        }

        #[test]
        fn what_is_escaped_has_nothing_of_markup(text in ".*") {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(['<', '>', '"']));
            prop_assert!(escaped.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "").replace("&quot;", "").find('&').is_none());
        }
    }
}
