//! When bytes of outputs in flight are sent to a staging server, so that they disturb the program little.
//!
//! | question | answer |
//! |----------|--------|
//! | phases   | a program that says when it calculates (`adios_begin_calculation`, `adios_end_calculation`) is not disturbed outside of these phases |
//! | pace     | with `iterations=N`, after k calls of `adios_end_iteration` since the close between k-1 and k+1 N-ths of an output have been sent, if the phases leave time for it |
//! | priority | among outputs that may be sent and have something to send, those of the highest `priority` are |
//! | hurry    | while the program of this rank waits for an output, all are sent as fast as they can be; those that it asks about, too |
//! | how long | at most a quarter of the communicator's timeout, from the beginning of an output: other ranks may wait for this one |
//! | which bytes | long ones: the messages that open and close an output, and runs of short writes, are not held up |

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_movement::events::{Event, Listener};
use thalweg_partition::client::staging::Pace;
use thalweg_types::mutex::{Condvar, Mutex};

/// Shorter bodies are sent at any time. Longer than what the client gathers of short writes, under a lock.
const SHORT: u64 = 512 << 10;
/// Longest piece that is sent at once.
const LONGEST: u64 = 8 << 20;
/// Pieces of a share, so that sending stops near the share's end.
const PIECES: u64 = 4;

/// How long after its last piece an output counts as being sent: others of a lower priority wait.
const PAUSE: Duration = Duration::from_millis(100);

thread_local! {
    /// The transfer whose bytes this thread sends.
    static CURRENT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// An output that is being sent.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    number: u64,
    priority: i32,
    /// Over how many iterations it is sent.
    iterations: u64,
    /// Iterations that had ended when it began.
    began: u64,
    total: u64,
    sent: u64,
    /// Bytes that wait to be sent.
    wants: u64,
    /// When it last began to send some.
    last: Option<Instant>,
    /// It is held up until then.
    until: Option<Instant>,
}

impl Transfer {
    /// Bytes that may have been sent by now.
    fn share(&self, iterations: u64) -> u64 {
        let due = iterations.saturating_sub(self.began) + 1;
        if due >= self.iterations {
            return u64::MAX;
        }
        (u128::from(self.total) * u128::from(due) / u128::from(self.iterations)) as u64
    }
}

/// What is known of the program and its transfers.
#[derive(Debug, Default)]
struct Book {
    /// Whether it calculates; `None` if it has never said.
    calculates: Option<bool>,
    iterations: u64,
    /// Waits of the program.
    waits: u64,
    next: u64,
    transfers: Vec<Transfer>,
}

impl Book {
    fn hear(&mut self, event: Event) {
        match event {
            Event::CalculationBegins => self.calculates = Some(true),
            Event::CalculationEnds => self.calculates = Some(false),
            Event::IterationEnds => self.iterations += 1,
        }
    }

    /// - `until`: when it is sent in any case.
    fn begin(&mut self, priority: i32, iterations: u64, total: u64, until: Option<Instant>) -> u64 {
        let number = self.next;
        self.next += 1;
        let began = self.iterations;
        let last = None;
        self.transfers.push(Transfer { number, priority, iterations, began, total, sent: 0, wants: 0, last, until });
        number
    }

    fn of(&mut self, number: u64) -> Option<&mut Transfer> {
        self.transfers.iter_mut().find(|transfer| transfer.number == number)
    }

    /// Whether the program lets these bytes of a transfer be sent now.
    fn is_due(&self, transfer: &Transfer, now: Instant) -> bool {
        self.waits > 0
            || transfer.until.is_some_and(|until| until <= now)
            || self.calculates != Some(false)
                && transfer.sent.saturating_add(transfer.wants.max(1)) <= transfer.share(self.iterations)
    }

    /// Whether a transfer may send what it wants to: none of a higher priority is sending.
    fn may_send(&self, number: u64, now: Instant) -> bool {
        let Some(own) = self.transfers.iter().find(|transfer| transfer.number == number) else { return true };
        let sends = |other: &Transfer| other.wants > 0 || other.last.is_some_and(|last| now < last + PAUSE);
        let goes_first = |other: &&Transfer| other.priority > own.priority && sends(other);
        self.is_due(own, now) && !self.transfers.iter().filter(goes_first).any(|other| self.is_due(other, now))
    }
}

/// The pace of a session's outputs.
#[derive(Default)]
pub(crate) struct Pacer {
    book: Mutex<Book>,
    changed: Condvar,
}

/// The program waits until this is dropped.
pub(crate) struct Hurry<'p>(&'p Pacer);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.book.lock().waits -= 1;
    }
}

/// This thread sends an output until this is dropped.
pub(super) struct Sending {
    pacer: Arc<Pacer>,
    number: u64,
}

impl Drop for Sending {
    fn drop(&mut self) {
        CURRENT.set(None);
        self.pacer.book.lock().transfers.retain(|transfer| transfer.number != self.number);
        self.pacer.changed.notify_all();
    }
}

impl Pacer {
    /// The program waits for an output.
    pub(crate) fn hurry(&self) -> Hurry<'_> {
        self.book.lock().waits += 1;
        self.changed.notify_all();
        Hurry(self)
    }

    /// The program asks about outputs: those that are being sent are not held up any more.
    pub(crate) fn lift(&self) {
        let now = Instant::now();
        self.book.lock().transfers.iter_mut().for_each(|transfer| transfer.until = Some(now));
        self.changed.notify_all();
    }

    /// This thread, which is none of the program's, begins to send an output of `total` bytes.
    ///
    /// - `longest`: how long it is held up at most.
    pub(super) fn begin(self: &Arc<Pacer>, priority: i32, iterations: u64, total: u64, longest: Duration) -> Sending {
        let until = Instant::now().checked_add(longest);
        let number = self.book.lock().begin(priority, iterations.max(1), total, until);
        CURRENT.set(Some(number));
        Sending { pacer: self.clone(), number }
    }
}

impl Listener for Pacer {
    fn hear(&self, event: Event) {
        self.book.lock().hear(event);
        self.changed.notify_all();
    }
}

impl Pace for Pacer {
    fn piece(&self) -> usize {
        let mut book = self.book.lock();
        let piece = match CURRENT.get().and_then(|number| book.of(number)) {
            Some(transfer) if transfer.iterations > 1 => transfer.total / (transfer.iterations * PIECES),
            _ => LONGEST,
        };
        piece.clamp(SHORT, LONGEST) as usize
    }

    fn before(&self, bytes: u64) {
        let Some(number) = CURRENT.get().filter(|_| bytes >= SHORT) else { return };
        let mut book = self.book.lock();
        if let Some(transfer) = book.of(number) {
            transfer.wants = bytes;
        }
        // Who has a lower priority waits for this one from now on.
        while !book.may_send(number, Instant::now()) {
            book = self.changed.wait_timeout(book, PAUSE).0;
        }
        if let Some(transfer) = book.of(number) {
            (transfer.sent, transfer.wants) = (transfer.sent.saturating_add(bytes), 0);
            transfer.last = Some(Instant::now());
        }
        drop(book);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sends as much as it may, in pieces; bytes sent so far.
    fn send(book: &mut Book, number: u64, piece: u64) -> u64 {
        loop {
            let Some(transfer) = book.of(number) else { return 0 };
            transfer.wants = piece.min(transfer.total - transfer.sent);
            if transfer.wants == 0 || !book.may_send(number, Instant::now()) {
                let transfer = book.of(number).unwrap();
                transfer.wants = 0;
                return transfer.sent;
            }
            let transfer = book.of(number).unwrap();
            transfer.sent += transfer.wants;
        }
    }

    proptest! {
        #[test]
        fn after_k_iterations_between_k_less_one_and_k_more_one_shares_are_sent(
            total in 1_000_000u64..1 << 40, iterations in 1u64..50, before in 0u64..5,
        ) {
            let mut book = Book::default();
            (0..before).for_each(|_| book.hear(Event::IterationEnds));
            let number = book.begin(1, iterations, total, None);
            let piece = total / (iterations * PIECES);
            for k in 0..iterations + 2 {
                let sent = u128::from(send(&mut book, number, piece.max(1)));
                let share = |k: u64| u128::from(total) * u128::from(k) / u128::from(iterations);
                prop_assert!(sent >= share(k.saturating_sub(1)).min(u128::from(total)) && sent <= share(k + 1), "{k}: {sent}");
                if k + 1 >= iterations {
                    prop_assert_eq!(sent, u128::from(total));
                }
                book.hear(Event::IterationEnds);
            }
        }
    }

    #[test]
    fn nothing_is_sent_outside_of_phases_of_calculation_unless_the_program_waits() {
        let mut book = Book::default();
        let number = book.begin(1, 1, 100, None);
        assert_eq!(send(&mut book, number, 10), 100, "a program that never says so is not held up");
        book.hear(Event::CalculationEnds);
        let number = book.begin(1, 1, 100, None);
        assert_eq!(send(&mut book, number, 10), 0);
        book.hear(Event::CalculationBegins);
        book.hear(Event::CalculationEnds);
        assert_eq!(send(&mut book, number, 10), 0);
        book.waits = 1;
        assert_eq!(send(&mut book, number, 10), 100);
    }

    #[test]
    fn the_highest_priority_goes_first_and_one_that_sends_nothing_holds_up_nobody() {
        let mut book = Book::default();
        let now = Instant::now();
        let (low, high) = (book.begin(1, 1, 100, None), book.begin(5, 2, 100, None));
        book.of(high).unwrap().wants = 40;
        book.of(low).unwrap().wants = 10;
        assert!(book.may_send(high, now) && !book.may_send(low, now));
        // Between two pieces, and later: it may wait for other ranks.
        (book.of(high).unwrap().wants, book.of(high).unwrap().last) = (0, Some(now));
        assert!(!book.may_send(low, now) && book.may_send(low, now + PAUSE));
        // Its share of this iteration is sent.
        (book.of(high).unwrap().sent, book.of(high).unwrap().wants) = (50, 10);
        assert!(book.may_send(low, now) && !book.may_send(high, now));
        book.hear(Event::IterationEnds);
        assert!(book.may_send(high, now) && !book.may_send(low, now));
    }

    #[test]
    fn an_output_is_held_up_for_a_bounded_time() {
        let mut book = Book::default();
        book.hear(Event::CalculationEnds);
        let now = Instant::now();
        let number = book.begin(1, 10, 100, Some(now + PAUSE));
        book.of(number).unwrap().wants = 100;
        assert!(!book.may_send(number, now) && book.may_send(number, now + PAUSE));
    }

    #[test]
    fn bytes_of_no_transfer_are_not_held_up() {
        let pacer = Arc::new(Pacer::default());
        pacer.hear(Event::CalculationEnds);
        pacer.before(1 << 30);
        let sending = pacer.begin(1, 4, 16 << 20, Duration::from_secs(1000));
        assert_eq!(pacer.piece(), 1 << 20);
        pacer.before(SHORT - 1);
        let waits = pacer.hurry();
        pacer.before(1 << 30);
        drop(waits);
        pacer.lift();
        pacer.before(1 << 30);
        drop(sending);
        pacer.before(1 << 30);
    }
}
