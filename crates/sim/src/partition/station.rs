//! What messages wait for: links and processors, which serve one message at a time in the order of arrival, and disks behind a cache.

/// A resource that serves in the order of arrival: a direction of a link, or a processor.
#[derive(Debug, Clone, Copy, Default)]
pub struct Station {
    /// When it has served everything that came so far.
    free: f64,
}

impl Station {
    /// Serves a request that comes at `now`; returns when it is served.
    pub fn serve(&mut self, now: f64, seconds: f64) -> f64 {
        self.free = self.free.max(now) + seconds;
        self.free
    }

    /// The receiving end of a link. Bytes come in while they are sent, so a message whose last byte arrives at `now` has been received
    /// then, unless the link was busy with others; returns when its last byte is in.
    pub fn receive(&mut self, now: f64, seconds: f64) -> f64 {
        self.free = (self.free + seconds).max(now);
        self.free
    }
}

/// A server's disk, and the bytes in the server's memory that it does not have yet.
#[derive(Debug, Clone, Copy)]
pub struct Disk {
    bytes_per_second: f64,
    most: f64,
    unwritten: f64,
    at: f64,
}

impl Disk {
    /// - `most`: bytes that may be in memory before writes wait for the disk.
    pub fn new(bytes_per_second: f64, most: f64) -> Disk {
        Disk { bytes_per_second, most, unwritten: 0.0, at: 0.0 }
    }

    /// Takes bytes that come at `now`, or later where there is no room for them; returns when there was.
    pub fn take(&mut self, now: f64, bytes: f64) -> f64 {
        let passed = (now - self.at).max(0.0);
        self.unwritten = (self.unwritten - passed * self.bytes_per_second).max(0.0);
        self.at = self.at.max(now);
        let too_much = self.unwritten + bytes - self.most.max(bytes);
        if too_much > 0.0 {
            self.at += too_much / self.bytes_per_second;
            self.unwritten -= too_much;
        }
        self.unwritten += bytes;
        self.at
    }

    /// When it has all bytes, if no others come.
    pub fn written_at(&self) -> f64 {
        self.at + self.unwritten / self.bytes_per_second
    }

    /// Everything is written: the program computed for long.
    pub fn settle(&mut self) {
        self.unwritten = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_for_those_before_them() {
        let mut station = Station::default();
        assert_eq!([station.serve(1.0, 2.0), station.serve(1.5, 2.0), station.serve(9.0, 2.0)], [3.0, 5.0, 11.0]);
    }

    #[test]
    fn a_link_receives_at_its_own_speed_whatever_many_senders_send() {
        let mut link = Station::default();
        // Four messages of one second each, from four senders at the same time.
        assert_eq!([0; 4].map(|_| link.receive(1.0, 1.0)), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(link.receive(9.0, 1.0), 9.0);
    }

    #[test]
    fn writes_wait_for_the_disk_once_memory_is_full() {
        let mut disk = Disk::new(10.0, 100.0);
        assert_eq!(disk.take(0.0, 100.0), 0.0);
        assert_eq!(disk.take(0.0, 50.0), 5.0);
        // The disk has written 50 bytes more.
        assert_eq!(disk.take(10.0, 50.0), 10.0);
        assert_eq!(disk.written_at(), 20.0);
        disk.settle();
        assert_eq!(disk.take(10.0, 100.0), 10.0);
        // Larger than the memory: it waits until the memory is empty.
        assert_eq!(disk.take(10.0, 500.0), 20.0);
    }
}
