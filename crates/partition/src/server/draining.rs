//! Whether a server that has to end writes everything in time. Pure but for [`Meter`], which is told what passes.
//!
//! | question | answer |
//! |----------|--------|
//! | how long it takes | bytes that are not stored, at the rate at which the storage has taken bytes so far |
//! | how long it may take | `kill_wait` of the configuration: from SIGTERM to SIGKILL |
//! | when it warns | once the time needed exceeds that; again only after it has fallen below half |
//! | the end of the job | where it is known ([`job_end`]), the server begins to write back so early that it is done then ([`begins`]) |

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_types::mutex::Mutex;

/// Time after which what a [`Meter`] was told counts half.
const HALVES: f64 = 30.0;

/// The rate of a storage, of what it did last.
#[derive(Debug, Default)]
pub struct Meter(Mutex<(f64, f64)>);

impl Meter {
    /// So many bytes took so long.
    pub fn add(&self, bytes: u64, time: Duration) {
        let mut sum = self.0.lock();
        if sum.1 > HALVES {
            *sum = (sum.0 / 2.0, sum.1 / 2.0);
        }
        *sum = (sum.0 + bytes as f64, sum.1 + time.as_secs_f64());
    }

    /// Runs a call that stores so many bytes.
    pub fn time<T>(&self, bytes: u64, call: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let outcome = call();
        self.add(bytes, begin.elapsed());
        outcome
    }

    /// Bytes per second; `None` before any byte.
    pub fn rate(&self) -> Option<u64> {
        let (bytes, seconds) = *self.0.lock();
        // A rate beyond that of any memory is as good as this one.
        (bytes > 0.0).then(|| (bytes / seconds.max(1e-9)).clamp(1.0, 1e12) as u64)
    }
}

/// What is not stored, and how long that takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Outlook {
    /// Bytes of clients that are not in the storage.
    pub bytes: u64,
    /// Bytes per second that the storage has taken; `None` before it has taken any.
    pub rate: Option<u64>,
    /// Milliseconds that the bytes need; `None` if the rate is not known.
    pub needed_ms: Option<u64>,
}

impl Outlook {
    /// So many bytes at this rate.
    pub fn of(bytes: u64, rate: Option<u64>) -> Outlook {
        let needed = |rate: u64| (u128::from(bytes) * 1000).div_ceil(u128::from(rate.max(1)));
        let needed_ms = match (bytes, rate) {
            (0, _) => Some(0),
            (_, rate) => rate.map(|rate| u64::try_from(needed(rate)).unwrap_or(u64::MAX)),
        };
        Outlook { bytes, rate, needed_ms }
    }

    /// Both, one after the other.
    pub fn and(self, then: Outlook) -> Outlook {
        match (self.bytes, then.bytes) {
            (_, 0) => self,
            (0, _) => then,
            _ => Outlook {
                bytes: self.bytes.saturating_add(then.bytes),
                rate: self.rate.zip(then.rate).map(|(one, other)| one.min(other)),
                needed_ms: self.needed_ms.zip(then.needed_ms).map(|(one, other)| one.saturating_add(other)),
            },
        }
    }

    /// The time that the bytes need; none for an unknown one, which no warning is made of.
    pub fn needed(&self) -> Duration {
        Duration::from_millis(self.needed_ms.unwrap_or(0))
    }

    /// Whether they are not stored within a time, as far as is known.
    pub fn exceeds(&self, allowed: Duration) -> bool {
        self.needed() > allowed
    }
}

impl std::fmt::Display for Outlook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.bytes, self.rate) {
            (0, _) => f.write_str("everything is stored"),
            (bytes, None) => write!(f, "{bytes} bytes are not stored yet; the rate of the storage is not known"),
            (bytes, Some(rate)) => write!(
                f,
                "{bytes} bytes are not stored yet; at {rate} bytes per second this takes {} s",
                self.needed().as_millis().div_ceil(1000)
            ),
        }
    }
}

/// What a server is told that ends: what it says at once.
///
/// - `allowed`: until it is killed.
/// - `files`: files that clients have open.
/// - `staged`: bytes of staged outputs that are held, also of those that programs have closed.
pub fn last_words(outlook: &Outlook, allowed: Duration, files: u64, staged: u64) -> String {
    match outlook.exceeds(allowed) {
        false => outlook.to_string(),
        true => {
            let staged = match staged {
                0 => "; bytes".to_string(),
                bytes => format!(", and the last of {bytes} bytes of staged outputs that were closed; other bytes"),
            };
            format!(
                "{outlook}, but servers are killed after about {} s: bytes of {files} open files may be lost{staged} closed \
                 or synced before are stored",
                allowed.as_secs()
            )
        }
    }
}

/// A warning, once.
#[derive(Debug, Default)]
pub struct Alarm(bool);

impl Alarm {
    /// Whether to warn now.
    pub fn looks(&mut self, outlook: &Outlook, allowed: Duration) -> bool {
        let (before, exceeds) = (self.0, outlook.exceeds(allowed));
        self.0 = exceeds || before && outlook.exceeds(allowed / 2);
        exceeds && !before
    }
}

/// When Slurm ends this job: the value of `SLURM_JOB_END_TIME`, seconds since 1970.
pub fn job_end(value: Option<&str>) -> Option<SystemTime> {
    let seconds = value?.trim().parse::<u64>().ok().filter(|seconds| *seconds > 0)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Whether a server whose job ends after this time writes back now: in twice the time that its bytes need, and at least in the last
/// `allowed`. With an unknown rate the time that its bytes need is `allowed`.
pub fn begins(outlook: &Outlook, left: Duration, allowed: Duration) -> bool {
    let needed = if outlook.needed_ms.is_some() { outlook.needed() } else { allowed };
    outlook.bytes > 0 && left <= needed.saturating_mul(2).max(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn the_time_follows_from_bytes_and_rate() {
        for (bytes, rate, needed) in [
            (0, None, Some(0)),
            (0, Some(5), Some(0)),
            (10, None, None),
            (10, Some(5), Some(2000)),
            (11, Some(5000), Some(3)),
            (u64::MAX, Some(1), Some(u64::MAX)),
            (7, Some(0), Some(7000)),
        ] {
            assert_eq!(Outlook::of(bytes, rate).needed_ms, needed, "{bytes} at {rate:?}");
        }
        let one = Outlook::of(100, Some(10));
        assert_eq!(one.and(Outlook::of(60, Some(20))), Outlook { bytes: 160, rate: Some(10), needed_ms: Some(13_000) });
        assert_eq!((one.and(Outlook::of(0, None)), Outlook::of(0, None).and(one)), (one, one));
        assert_eq!(one.and(Outlook::of(1, None)).needed_ms, None);
    }

    #[test]
    fn a_meter_follows_a_storage_that_slows_down() {
        let meter = Meter::default();
        assert_eq!(meter.rate(), None);
        meter.add(0, S(1));
        assert_eq!(meter.rate(), None, "a call without bytes tells no rate");
        let meter = Meter::default();
        meter.add(1000, S(1));
        assert_eq!(meter.rate(), Some(1000));
        (0..600).for_each(|_| meter.add(10, S(1)));
        assert!(meter.rate().is_some_and(|rate| (10..12).contains(&rate)), "{:?}", meter.rate());
        let fast = Meter::default();
        fast.add(u64::MAX, Duration::ZERO);
        assert_eq!(fast.rate(), Some(1_000_000_000_000));
    }

    #[test]
    fn a_server_says_before_it_ends_what_may_be_lost() {
        let late = last_words(&Outlook::of(900, Some(10)), S(30), 2, 0);
        let said = "900 bytes are not stored yet; at 10 bytes per second this takes 90 s, but servers are killed after about 30 s: \
                    bytes of 2 open files may be lost; bytes closed or synced before are stored";
        assert_eq!(late, said);
        for outlook in [Outlook::of(300, Some(10)), Outlook::of(900, None), Outlook::of(0, Some(10))] {
            assert!(!last_words(&outlook, S(30), 2, 0).contains("lost"), "{outlook}");
        }
    }

    #[test]
    fn the_alarm_is_raised_once_until_the_time_has_fallen_below_half() {
        let mut alarm = Alarm::default();
        let mut warned = |seconds| alarm.looks(&Outlook::of(seconds, Some(1)), S(30));
        let seconds = [10, 30, 31, 40, 29, 31, 16, 35, 15, 31, 90];
        let expected = [false, false, true, false, false, false, false, false, false, true, false];
        assert_eq!(seconds.map(&mut warned), expected);
    }

    #[test]
    fn a_server_begins_to_write_back_before_the_end_of_its_job() {
        let outlook = Outlook::of(1000, Some(10));
        assert!(!begins(&outlook, S(201), S(30)) && begins(&outlook, S(200), S(30)));
        // In the last seconds whatever there is.
        assert!(begins(&Outlook::of(1, Some(10)), S(30), S(30)) && !begins(&Outlook::of(0, Some(10)), S(0), S(30)));
        assert!(begins(&Outlook::of(1, None), S(60), S(30)) && !begins(&Outlook::of(1, None), S(61), S(30)));
        assert_eq!(job_end(Some("1700000000")), Some(UNIX_EPOCH + S(1_700_000_000)));
        for value in [None, Some(""), Some("0"), Some("soon"), Some("99999999999999999999")] {
            assert_eq!(job_end(value), None, "{value:?}");
        }
    }
}
