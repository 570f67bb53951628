//! Something that takes its time, or never ends, on a thread of its own: what the kernel has to verify, for one.

use tokio::task::JoinSet;

/// What comes of it; one at a time.
#[derive(Debug)]
pub(super) struct Loading<T> {
    tasks: JoinSet<Result<T, String>>,
}

impl<T: Send + 'static> Loading<T> {
    pub(super) fn new() -> Self {
        Self { tasks: JoinSet::new() }
    }

    /// Begins, unless it is under way already. Whoever ends does not wait for it.
    pub(super) fn begin(&mut self, load: impl FnOnce() -> Result<T, String> + Send + 'static) {
        if !self.is_busy() {
            self.tasks.spawn_blocking(load);
        }
    }

    /// Whether it is under way.
    pub(super) fn is_busy(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// What came of it; `None` where nothing is under way. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Result<T, String>> {
        let done = self.tasks.join_next().await?;
        Some(done.unwrap_or_else(|_| Err("loading it panicked".into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn what_hangs_keeps_nobody_and_is_begun_once() {
        let mut loading = Loading::new();
        let (go, gate) = mpsc::channel::<()>();
        loading.begin(move || gate.recv().map(|()| 7).map_err(|error| error.to_string()));
        loading.begin(|| unreachable!("it is under way"));
        assert!(loading.is_busy());
        tokio::select! {
            biased;
            done = loading.next() => panic!("it hangs: {done:?}"),
            () = tokio::task::yield_now() => {}
        }
        go.send(()).expect("it waits");
        assert_eq!(loading.next().await, Some(Ok(7)));
        assert!(!loading.is_busy() && loading.next().await.is_none());
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_too() {
        let mut loading = Loading::<()>::new();
        loading.begin(|| panic!("on purpose"));
        assert_eq!(loading.next().await, Some(Err("loading it panicked".into())));
        assert!(!loading.is_busy());
    }
}
