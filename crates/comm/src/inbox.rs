//! The messages of one rank: those that came, and the receives that wait for one.
//!
//! The rules are those of MPI. Messages of one sender and tag are received in the order they were sent; of several
//! receives that a message fits, the one started first gets it. `T` is what a communicator keeps of a message.

use std::collections::{HashMap, VecDeque};

/// See the module's page.
#[derive(Debug)]
pub struct Inbox<T> {
    /// By tag, in order of arrival.
    arrived: HashMap<u32, VecDeque<Arrived<T>>>,
    /// In the order they were started.
    posted: VecDeque<Posted<T>>,
    next_arrival: u64,
    next_ticket: u64,
}

#[derive(Debug)]
struct Arrived<T> {
    number: u64,
    from: u32,
    message: T,
}

#[derive(Debug)]
struct Posted<T> {
    ticket: Ticket,
    from: Option<u32>,
    tag: u32,
    matched: Option<Arrived<T>>,
}

/// Names a started receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Inbox { arrived: HashMap::new(), posted: VecDeque::new(), next_arrival: 0, next_ticket: 0 }
    }
}

fn fits(wanted: Option<u32>, from: u32) -> bool {
    wanted.is_none_or(|w| w == from)
}

impl<T> Inbox<T> {
    /// A message came: the first receive it fits gets it, or it waits.
    pub fn arrive(&mut self, from: u32, tag: u32, message: T) {
        let number = self.next_arrival;
        self.next_arrival += 1;
        self.place(tag, Arrived { number, from, message });
    }

    fn place(&mut self, tag: u32, message: Arrived<T>) {
        let waiting =
            self.posted.iter_mut().find(|p| p.matched.is_none() && p.tag == tag && fits(p.from, message.from));
        if let Some(posted) = waiting {
            posted.matched = Some(message);
            return;
        }
        let queue = self.arrived.entry(tag).or_default();
        let at = queue.partition_point(|other| other.number < message.number);
        queue.insert(at, message);
    }

    /// Starts a receive.
    pub fn post(&mut self, from: Option<u32>, tag: u32) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let mut matched = None;
        if let Some(queue) = self.arrived.get_mut(&tag) {
            if let Some(at) = queue.iter().position(|m| fits(from, m.from)) {
                matched = queue.remove(at);
            }
            if queue.is_empty() {
                self.arrived.remove(&tag);
            }
        }
        self.posted.push_back(Posted { ticket, from, tag, matched });
        ticket
    }

    /// The pending receives (sender, tag), in order.
    pub fn waiting(&self) -> impl Iterator<Item = (Option<u32>, u32)> + '_ {
        self.posted.iter().filter(|p| p.matched.is_none()).map(|p| (p.from, p.tag))
    }

    /// The message a receive got, while it stays here.
    pub fn matched(&mut self, ticket: Ticket) -> Option<&mut T> {
        let posted = self.posted.iter_mut().find(|p| p.ticket == ticket)?;
        posted.matched.as_mut().map(|m| &mut m.message)
    }

    /// The messages of all receives that have theirs, while they stay here.
    pub fn all_matched(&mut self) -> impl Iterator<Item = &mut T> + '_ {
        self.posted.iter_mut().filter_map(|p| p.matched.as_mut()).map(|m| &mut m.message)
    }

    /// Ends a receive that has its message: returns the sender and the content.
    pub fn take(&mut self, ticket: Ticket) -> Option<(u32, T)> {
        let at = self.posted.iter().position(|p| p.ticket == ticket && p.matched.is_some())?;
        let got = self.posted.remove(at)?.matched?;
        Some((got.from, got.message))
    }

    /// Cancels a receive. Its message goes to the next receive that it matches, or back to its place among the pending messages.
    pub fn withdraw(&mut self, ticket: Ticket) {
        let Some(at) = self.posted.iter().position(|p| p.ticket == ticket) else { return };
        if let Some(Posted { tag, matched: Some(message), .. }) = self.posted.remove(at) {
            self.place(tag, message);
        }
    }

    /// The next message that a receive would get.
    pub fn peek(&self, from: Option<u32>, tag: u32) -> Option<(u32, &T)> {
        self.arrived.get(&tag)?.iter().find(|m| fits(from, m.from)).map(|m| (m.from, &m.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receive_started_first_gets_the_message() {
        let mut inbox = Inbox::default();
        let first = inbox.post(None, 1);
        let second = inbox.post(Some(2), 1);
        inbox.arrive(2, 1, "a");
        assert_eq!(inbox.take(second), None);
        assert_eq!(inbox.take(first), Some((2, "a")));
        inbox.arrive(3, 1, "not for the second");
        assert_eq!(inbox.take(second), None);
        inbox.arrive(2, 1, "b");
        assert_eq!(inbox.take(second), Some((2, "b")));
    }

    #[test]
    fn a_withdrawn_receive_puts_its_message_back_in_order() {
        let mut inbox = Inbox::default();
        let (one, two) = (inbox.post(None, 1), inbox.post(None, 1));
        for text in ["a", "b", "c"] {
            inbox.arrive(0, 1, text);
        }
        inbox.withdraw(one);
        inbox.withdraw(two);
        let order: Vec<_> = (0..3)
            .map(|_| {
                let ticket = inbox.post(None, 1);
                inbox.take(ticket).unwrap().1
            })
            .collect();
        assert_eq!(order, ["a", "b", "c"]);
        assert!(inbox.arrived.is_empty() && inbox.posted.is_empty());
    }

    #[test]
    fn peeking_sees_what_no_receive_has_taken() {
        let mut inbox = Inbox::default();
        let ticket = inbox.post(Some(1), 9);
        inbox.arrive(1, 9, "taken");
        assert_eq!(inbox.peek(None, 9), None);
        inbox.arrive(4, 9, "left");
        assert_eq!(inbox.peek(None, 9), Some((4, &"left")));
        assert_eq!(inbox.peek(Some(1), 9), None);
        inbox.withdraw(ticket);
        assert_eq!(inbox.peek(None, 9), Some((1, &"taken")));
    }
}
