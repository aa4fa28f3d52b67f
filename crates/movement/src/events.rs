//! Events that the program reports between its writes: a calculation begins or ends, an iteration has ended.
//!
//! A method's value ends with its output, but a thread that it leaves running can use the events: a thread that drains a buffer
//! may pause while the program communicates, for example. Such a thread registers a listener with [`Events::listen`] on
//! [`crate::output_file::cache::Cache::events`], which is part of every [`crate::OpenRequest`]. Listeners are called on the
//! program's thread, until they are dropped.
//!
//! The last events and their times are also stored for the profile of the next output that closes.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Instant;
use thalweg_types::mutex::Mutex;

/// Largest number of events stored until an output closes; older ones are discarded.
const MOST: usize = 1024;

/// An event that the program reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A calculation begins: a good time to move bytes in the background.
    CalculationBegins,
    /// A calculation has ended: communication or an output follows.
    CalculationEnds,
    /// An iteration has ended: outputs happen at such moments.
    IterationEnds,
}

/// A receiver of events.
pub trait Listener: Send + Sync {
    /// Called for each event; the program waits until this returns.
    fn hear(&self, event: Event);
}

/// The events of a process, and the listeners.
#[derive(Default)]
pub struct Events {
    listeners: Mutex<Vec<Weak<dyn Listener>>>,
    said: Mutex<VecDeque<(Event, Instant)>>,
}

impl Events {
    /// Calls `listener` for all events from now on, until the last other reference to it is dropped.
    pub fn listen(&self, listener: &Arc<dyn Listener>) {
        self.listeners.lock().push(Arc::downgrade(listener));
    }

    /// Reports an event: stores it and calls all listeners.
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

    /// Takes out the stored events, with their times. The beginning of a calculation that goes on stays stored.
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
    struct RecordedEvents(Mutex<Vec<Event>>);

    impl Listener for RecordedEvents {
        fn hear(&self, event: Event) {
            self.0.lock().push(event);
        }
    }

    #[test]
    fn a_listener_hears_of_all_events_until_it_is_gone() {
        let events = Events::default();
        events.tell(Event::IterationEnds);
        let recorded = Arc::new(RecordedEvents::default());
        let listener: Arc<dyn Listener> = recorded.clone();
        events.listen(&listener);
        events.tell(Event::CalculationBegins);
        events.tell(Event::CalculationEnds);
        assert_eq!(*recorded.0.lock(), [Event::CalculationBegins, Event::CalculationEnds]);
        drop(listener);
        drop(recorded);
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
