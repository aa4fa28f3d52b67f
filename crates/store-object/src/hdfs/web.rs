//! Reads of ranges through WebHDFS: `GET /webhdfs/v1/PATH?op=OPEN`.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use thalweg_types::{Error, ErrorKind, Result};
use ureq::Agent;

/// The WebHDFS addresses of the name nodes, one of which is active.
#[derive(Clone)]
pub struct Web {
    shared: Arc<Shared>,
}

struct Shared {
    addresses: Vec<String>,
    user: Option<String>,
    agent: Agent,
    /// The address that answered last.
    active: AtomicUsize,
    /// Longest time of one request.
    timeout: Duration,
}

/// Most requests for a range whose data nodes do not answer.
const TRIES: u32 = 10;

impl Web {
    /// - `addresses`: `http://host:port`, at least one.
    pub fn new(addresses: Vec<String>, user: Option<String>, timeout: Duration) -> Web {
        let user = user.or_else(|| ["HADOOP_USER_NAME", "USER"].iter().find_map(|key| std::env::var(key).ok()));
        let agent = Agent::config_builder().timeout_global(Some(timeout)).build().new_agent();
        Web { shared: Arc::new(Shared { addresses, user, agent, active: AtomicUsize::new(0), timeout }) }
    }

    /// Reads at most `out.len()` bytes; the range must begin within the object. Returns how many bytes were read.
    ///
    /// The name node redirects the request to a random data node that has the block, perhaps to one that has just died; so failed
    /// requests are repeated.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied`, `Timeout` or `Io`, of the last request.
    pub fn open(&self, path: &str, offset: u64, out: &mut [u8]) -> Result<usize> {
        let until = Instant::now() + self.shared.timeout;
        let mut pause = Duration::from_millis(1);
        for _ in 1..TRIES {
            match self.once(path, offset, out) {
                Err(error) if error.kind() == ErrorKind::Io && Instant::now() < until => {}
                outcome => return outcome,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        self.once(path, offset, out)
    }

    fn once(&self, path: &str, offset: u64, out: &mut [u8]) -> Result<usize> {
        let Shared { addresses, active, .. } = &*self.shared;
        let first = active.load(Ordering::Relaxed);
        let mut last = None;
        for step in 0..addresses.len() {
            let at = (first + step) % addresses.len();
            match self.ask(&addresses[at], path, offset, out) {
                Ok(got) => {
                    active.store(at, Ordering::Relaxed);
                    return Ok(got);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| Error::new(ErrorKind::Config, "cannot read through WebHDFS: no address is known")))
    }

    fn ask(&self, address: &str, path: &str, offset: u64, out: &mut [u8]) -> Result<usize> {
        let mut url = format!("{address}/webhdfs/v1{}?op=OPEN&offset={offset}&length={}", encoded(path), out.len());
        if let Some(user) = &self.shared.user {
            url.push_str("&user.name=");
            url.push_str(&encoded(user));
        }
        let answer = self.shared.agent.get(&url).call().map_err(|cause| {
            let kind = match &cause {
                ureq::Error::StatusCode(404) => ErrorKind::NotFound,
                ureq::Error::StatusCode(401 | 403) => ErrorKind::PermissionDenied,
                ureq::Error::Timeout(_) => ErrorKind::Timeout,
                _ => ErrorKind::Io,
            };
            Error::new(kind, "cannot read through WebHDFS").caused_by(cause)
        })?;
        let mut body = answer.into_body().into_reader();
        let mut got = 0;
        while got < out.len() {
            match body.read(&mut out[got..]) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("cannot read through WebHDFS", e)),
            }
        }
        Ok(got)
    }
}

/// A path as part of an address, with escapes such as `%41`.
fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_byte_by_byte() {
        assert_eq!(encoded("/a b/é?&=%.bp"), "/a%20b/%C3%A9%3F%26%3D%25.bp");
    }
}
