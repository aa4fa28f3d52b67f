//! What the program says it is doing between its writes: it computes, it has ended an iteration.
//!
//! No method lives between outputs, but what one leaves running may want to know: a thread that drains a buffer moves
//! little while the program computes with the network, say. It listens: [`Events::listen`] on
//! [`crate::output_file::cache::Cache::events`], which every [`crate::OpenRequest`] brings. It is told on the thread of the program, which
//! waits meanwhile, until it is dropped.
//!
//! The last events are also kept, with their times, for the profile of the next output that closes.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Instant;
use thalweg_types::mutex::Mutex;

/// Events that are kept until an output closes; of more the oldest are forgotten.
const MOST: usize = 1024;

/// What the program says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It begins to compute: a good time to move bytes without the program.
    CalculationBegins,
    /// It has ended computing: it will communicate, or write.
    CalculationEnds,
    /// An iteration has ended: outputs come at such moments.
    IterationEnds,
}

/// Who wants to be told.
pub trait Listener: Send + Sync {
    /// The program has said something. It waits until this returns.
    fn hear(&self, event: Event);
}

/// All that a process says, and who listens.
#[derive(Default)]
pub struct Events {
    listeners: Mutex<Vec<Weak<dyn Listener>>>,
    said: Mutex<VecDeque<(Event, Instant)>>,
}

impl Events {
    /// Tells `listener` of all events from now on, as long as somebody else keeps it.
    pub fn listen(&self, listener: &Arc<dyn Listener>) {
        self.listeners.lock().push(Arc::downgrade(listener));
    }

    /// The program says something.
    pub fn tell(&self, event: Event) {
        let mut said = self.said.lock();
        if said.len() == MOST {
            said.pop_front();
        }
        said.push_back((event, Instant::now()));
        drop(said);
        let mut present = Vec::new();
        self.listeners.lock().retain(|listener| {
            let listener = listener.upgrade();
            let is_there = listener.is_some();
            present.extend(listener);
            is_there
        });
        present.iter().for_each(|listener| listener.hear(event));
    }

    /// What was said since this was last asked, and when. A calculation that goes on stays.
    pub fn take(&self) -> Vec<(Event, Instant)> {
        let mut said = self.said.lock();
        let going_on = said.iter().rev().find(|(event, _)| *event != Event::IterationEnds).copied();
        let going_on = going_on.filter(|(event, _)| *event == Event::CalculationBegins);
        let taken = said.drain(..).collect();
        said.extend(going_on);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<Event>>);

    impl Listener for Heard {
        fn hear(&self, event: Event) {
            self.0.lock().push(event);
        }
    }

    #[test]
    fn a_listener_hears_of_all_events_until_it_is_gone() {
        let events = Events::default();
        events.tell(Event::IterationEnds);
        let heard = Arc::new(Heard::default());
        let listener: Arc<dyn Listener> = heard.clone();
        events.listen(&listener);
        events.tell(Event::CalculationBegins);
        events.tell(Event::CalculationEnds);
        assert_eq!(*heard.0.lock(), [Event::CalculationBegins, Event::CalculationEnds]);
        drop(listener);
        drop(heard);
        events.tell(Event::IterationEnds);
        assert!(events.listeners.lock().is_empty());
    }

    #[test]
    fn what_was_said_is_kept_for_one_output_and_a_calculation_that_goes_on_for_the_next_too() {
        let events = Events::default();
        events.tell(Event::CalculationBegins);
        events.tell(Event::IterationEnds);
        let kinds = |taken: Vec<(Event, Instant)>| taken.into_iter().map(|(e, _)| e).collect::<Vec<_>>();
        assert_eq!(kinds(events.take()), [Event::CalculationBegins, Event::IterationEnds]);
        events.tell(Event::CalculationEnds);
        assert_eq!(kinds(events.take()), [Event::CalculationBegins, Event::CalculationEnds]);
        assert_eq!(kinds(events.take()), []);
        (0..3 * MOST).for_each(|_| events.tell(Event::IterationEnds));
        assert_eq!(events.take().len(), MOST);
    }
}
