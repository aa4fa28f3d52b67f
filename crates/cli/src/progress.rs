//! Progress bars on standard error, if it is a terminal, for operations longer than a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

const SILENT: Duration = Duration::from_secs(1);

/// A bar that shows itself after a second.
pub struct Progress {
    what: &'static str,
    form: &'static str,
    started: Instant,
    bar: Option<ProgressBar>,
    there: bool,
}

impl Progress {
    /// Counts bytes.
    pub fn bytes(what: &'static str) -> Progress {
        Progress::new(what, "{msg} [{bar:30}] {bytes} of {total_bytes}")
    }

    /// Shows a share alone.
    pub fn share(what: &'static str) -> Progress {
        Progress::new(what, "{msg} [{bar:30}] {percent} %")
    }

    fn new(what: &'static str, form: &'static str) -> Progress {
        Progress { what, form, started: Instant::now(), bar: None, there: io::stderr().is_terminal() }
    }

    /// So much is done of so much.
    pub fn at(&mut self, done: u64, total: u64) {
        if !self.there || (self.bar.is_none() && self.started.elapsed() < SILENT) {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_position(done);
            if let Ok(style) = ProgressStyle::with_template(self.form) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_message(self.what);
            bar
        });
        bar.set_length(total);
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
