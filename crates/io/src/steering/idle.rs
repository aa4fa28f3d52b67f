//! A run that offers no output for long: a thread of rank 0 warns. Nothing else depends on it.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Warns until it is dropped.
pub(super) struct Watch(Sender<u64>);

impl Watch {
    /// Begins with the output that is being opened.
    ///
    /// - `output`: for the warning; `number`: of the output; `limits`: times, with what is told after them.
    ///
    /// `None`, with a warning, if no thread can be started.
    pub(super) fn begin(output: PathBuf, number: u64, mut limits: Vec<(Duration, String)>) -> Option<Watch> {
        limits.sort();
        let (progress, goes_on) = channel();
        let told = move |number: u64, passed: Duration, rule: &str| {
            let (output, passed) = (output.display(), thalweg_params::time::show_time(passed));
            let what = format!("{output}: after output {number} the program has offered none for {passed}: {rule}");
            thalweg_warnings::tell_once(&what);
        };
        let watch = move || watch(&goes_on, number, &limits, told);
        match std::thread::Builder::new().name("thalweg-idle".into()).spawn(watch) {
            Ok(_) => Some(Watch(progress)),
            Err(e) => {
                thalweg_warnings::tell_once(&format!("rules about time warn at the next output only: {e}"));
                None
            }
        }
    }

    /// The program offers an output.
    pub(super) fn goes_on(&self, number: u64) {
        let _ = self.0.send(number);
    }
}

/// Tells each limit that passes without an offer, once for each offer, until all senders are gone.
///
/// - `number`: of the last output.
fn watch(goes_on: &Receiver<u64>, mut number: u64, limits: &[(Duration, String)], tell: impl Fn(u64, Duration, &str)) {
    'offered: loop {
        let offered = Instant::now();
        for (limit, rule) in limits {
            match goes_on.recv_timeout(limit.saturating_sub(offered.elapsed())) {
                Ok(next) => {
                    number = next;
                    continue 'offered;
                }
                Err(RecvTimeoutError::Timeout) => tell(number, *limit, rule),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        let Ok(next) = goes_on.recv() else { return };
        number = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn each_limit_is_told_once_after_each_offer() {
        let (progress, goes_on) = channel();
        let limits =
            [(Duration::from_millis(20), "short".to_string()), (Duration::from_millis(40), "long".to_string())];
        let told = Mutex::new(Vec::new());
        let tell = |number: u64, _: Duration, rule: &str| told.lock().unwrap().push(format!("{number} {rule}"));
        std::thread::scope(|scope| {
            let (limits, tell) = (&limits, &tell);
            scope.spawn(move || watch(&goes_on, 3, limits, tell));
            let wait = |count: usize| {
                while told.lock().unwrap().len() < count {
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            wait(2);
            std::thread::sleep(Duration::from_millis(100));
            progress.send(4).unwrap();
            wait(4);
            drop(progress);
        });
        assert_eq!(*told.lock().unwrap(), ["3 short", "3 long", "4 short", "4 long"]);
    }
}
