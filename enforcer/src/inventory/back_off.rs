//! Waits that grow. No I/O.

use std::time::Duration;

/// How long to wait before the next try: twice as long each time, within bounds.
#[derive(Debug, Clone)]
pub(super) struct BackOff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl BackOff {
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), next: min }
    }

    pub(super) fn wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(self.max);
        wait
    }

    /// It went well.
    pub(super) fn reset(&mut self) {
        self.next = self.min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_within_bounds_and_begin_anew() {
        let mut back_off = BackOff::new(Duration::from_millis(250), Duration::from_secs(1));
        let mut millis = || back_off.wait().as_millis();
        assert_eq!([millis(), millis(), millis(), millis()], [250, 500, 1000, 1000]);
        back_off.reset();
        assert_eq!(back_off.wait().as_millis(), 250);
        assert_eq!(BackOff::new(Duration::from_secs(2), Duration::ZERO).wait().as_secs(), 2);
    }
}
