//! The messages of the protocol, for any transport.
//!
//! | byte | size | field |
//! |------|------|-------|
//! | 0 | 4 | bytes of the head, little endian, at most [`LONGEST_HEAD`] |
//! | 4 | 4 | bytes of the body, little endian, at most [`LONGEST_BODY`]; with [`LENT`] added, number of the pieces of memory that are the body, at most [`MOST_PARTS`]; with [`SHARED`] added, bytes of a body that is in the sender's [segment], at most its length |
//! | 8 | ... | head: a [`Request`] or a [`Reply`] in postcard encoding |
//! | ... | ... | body: bytes of a file, a value, names; of a lent body, address and length of each piece, 8 bytes each, little endian; of a shared one, nothing |
//!
//! A connection begins with [`Request::Hello`]. Then each request gets one reply, in order. Received bytes are not trusted:
//! lengths are checked before memory is allocated, and memory grows only as bytes arrive.

use crate::transport::segment;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_layout::errno::{self, Errno};
use thalweg_layout::locks;
use thalweg_layout::{Attributes, Change, Kind, Life, OpenWrite, SetXattr, Space, Stat};
use thalweg_types::{Error, ErrorKind, Result};

/// Version of the protocol, the same on both sides.
pub const VERSION: u32 = 8;
/// Largest head in bytes.
pub const LONGEST_HEAD: usize = 64 << 10;
/// Largest body in bytes.
pub const LONGEST_BODY: usize = 256 << 20;
/// Added to the second length of a message whose body is lent: see [`Request::Lend`].
pub const LENT: u32 = 1 << 31;
/// Added to the second length of a message whose body is in the sender's segment: see [`Request::Share`].
pub const SHARED: u32 = 1 << 30;
/// Largest read or write per message, in bytes.
pub const LONGEST_PIECE: usize = 8 << 20;
/// Most parts of a [`Request::ReadParts`] or [`Request::WriteParts`].
pub const MOST_PARTS: usize = 2048;
/// Most views of a session.
pub const MOST_VIEWS: usize = 4096;

/// How a file is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// [`OpenWrite::Replace`]
    Replace,
    /// [`OpenWrite::New`]
    New,
    /// [`OpenWrite::Existing`]
    Existing,
    /// [`OpenWrite::Any`]
    Any,
}

/// [`locks::Kind`]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockKind {
    /// [`locks::Kind::Shared`]
    Shared,
    /// [`locks::Kind::Exclusive`]
    Exclusive,
    /// [`locks::Kind::None`]
    None,
}

/// [`locks::Family`]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockFamily {
    /// [`locks::Family::Whole`]
    Whole,
    /// [`locks::Family::Ranges`]
    Ranges,
}

/// [`locks::Count`]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Counting {
    /// [`locks::Count::Read`]
    Read,
    /// [`locks::Count::Set`]
    Set(u64),
    /// [`locks::Count::Add`]
    Add(u64),
}

/// A time: seconds since 1970, and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Time(i64, u32);

/// A request of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first request of a connection.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// Prefix of the mount.
        prefix: String,
        /// The session that this connection belongs to; `None` for a new one.
        session: Option<u128>,
    },
    /// [`thalweg_layout::Layout::open_write`]
    OpenWrite {
        /// The file.
        path: String,
        /// Mode of the open.
        how: How,
        /// Writer number.
        writer: u32,
    },
    /// [`thalweg_layout::Layout::open_read`]
    OpenRead(String),
    /// [`thalweg_layout::Layout::stat`]
    Stat(String),
    /// [`thalweg_layout::Layout::list`]
    List(String),
    /// [`thalweg_layout::Layout::rename`]
    Rename(String, String),
    /// [`thalweg_layout::Layout::remove`]
    Remove(String),
    /// [`thalweg_layout::Layout::make_folder`]
    MakeFolder(String),
    /// [`thalweg_layout::Layout::make_one_folder`]
    MakeOneFolder(String, u32),
    /// [`thalweg_layout::Layout::sync_folder`]
    SyncFolder(String),
    /// [`thalweg_layout::Layout::attributes`]
    Attributes(String),
    /// [`thalweg_layout::Layout::set_attributes`]
    SetAttributes {
        /// The file.
        path: String,
        /// Mode.
        mode: Option<u32>,
        /// Owner.
        uid: Option<u32>,
        /// Group.
        gid: Option<u32>,
        /// Last read.
        atime: Option<Time>,
        /// Last write.
        mtime: Option<Time>,
    },
    /// [`thalweg_layout::Layout::truncate`]
    Truncate(String, u64),
    /// [`thalweg_layout::Layout::make_link`]: target, path
    MakeLink(String, String),
    /// [`thalweg_layout::Layout::read_link`]
    ReadLink(String),
    /// [`thalweg_layout::Layout::make_hard_link`]
    MakeHardLink(String, String),
    /// [`thalweg_layout::Layout::xattr_get`]
    XattrGet(String, String),
    /// [`thalweg_layout::Layout::xattr_set`]; the value is the body, the number 0 for any, 1 for new, 2 for existing
    /// attributes
    XattrSet(String, String, u8),
    /// [`thalweg_layout::Layout::xattr_list`]
    XattrList(String),
    /// [`thalweg_layout::Layout::xattr_remove`]
    XattrRemove(String, String),
    /// [`thalweg_layout::Layout::space`]
    Space(String),
    /// [`thalweg_layout::Layout::plain_file`]
    PlainFile(String),
    /// Read from a handle: offset and number of bytes.
    Read(u64, u64, u32),
    /// Write to a handle: offset; the bytes are the body.
    Write(u64, u64),
    /// Length of a handle's file.
    Length(u64),
    /// Truncation through a handle: new length.
    Cut(u64, u64),
    /// Reservation through a handle: offset and length.
    Reserve(u64, u64, u64),
    /// Hole through a handle: offset and length.
    Punch(u64, u64, u64),
    /// Sync of a handle.
    Sync(u64),
    /// Publish of a handle.
    Publish(u64),
    /// Closes a handle and publishes its writes.
    Close(u64),
    /// Closes a handle as if its process had died.
    Drop(u64),
    /// Append on a handle: the bytes are the body; the reply is the new end.
    Append(u64),
    /// All bytes of a file, at most so many.
    Whole(String, u32),
    /// Registers a view under a number of the program's choice, until the session ends or [`Request::ForgetView`]: the body is the
    /// encoded view.
    View(u64),
    /// Forgets a view.
    ForgetView(u64),
    /// Writes the body's bytes to a handle, part by part.
    WriteParts {
        /// The handle.
        handle: u64,
        /// A registered view: parts are ranges of its bytes; without it, of the file.
        view: Option<u64>,
        /// First byte and number of bytes of each part, at most [`MOST_PARTS`].
        parts: Vec<(u64, u64)>,
    },
    /// Reads parts of a handle's file: the reply is a number, the length of the file before the read, and a body with all bytes that
    /// were asked for. Those beyond that length mean nothing.
    ReadParts {
        /// The handle.
        handle: u64,
        /// As in [`Request::WriteParts`].
        view: Option<u64>,
        /// As in [`Request::WriteParts`], together at most [`LONGEST_BODY`] bytes.
        parts: Vec<(u64, u64)>,
    },
    /// Asks whether the server can read this process's memory: the address of 16 bytes, and what they are. If the reply is a success,
    /// bodies of further requests on this connection may be lent: the server reads them, and the program leaves them unchanged until the
    /// reply.
    Lend(u64, [u8; 16]),
    /// [`thalweg_layout::WriteObject::order`]
    Order(u64),
    /// [`thalweg_layout::WriteObject::order_from`]: handle and number
    OrderFrom(u64, u64),
    /// [`thalweg_layout::WriteObject::claim`]: handle, where the file ends, and number of bytes; the reply is where they begin
    Claim(u64, u64, u64),
    /// [`thalweg_layout::Layout::locks`]: the reply is a handle, or nothing
    OpenLocks(String),
    /// [`FileLocks::lock`](thalweg_layout::locks::FileLocks::lock)
    Lock {
        /// A handle for locks.
        handle: u64,
        /// Which locks.
        family: LockFamily,
        /// Kind of the lock.
        kind: LockKind,
        /// First byte.
        start: u64,
        /// Number of bytes, 0 for all that follow.
        length: u64,
        /// Whether the program asks again soon.
        again: bool,
    },
    /// [`FileLocks::test`](thalweg_layout::locks::FileLocks::test): handle, kind, first byte and length.
    TestLock(u64, LockKind, u64, u64),
    /// [`FileLocks::make_counter`](thalweg_layout::locks::FileLocks::make_counter): handle and key
    MakeCounter(u64, u64),
    /// [`FileLocks::count`](thalweg_layout::locks::FileLocks::count): handle and key; the reply is the value before
    Count(u64, u64, Counting),
    /// [`thalweg_layout::Layout::make_striped`]: targets and bytes of a stripe; the reply is 1, or 0 if nothing was done
    MakeStriped(String, u32, u64),
    /// Passes the client's segment. If the reply is a success, it passes the server's; from then on bodies of requests and replies may be in
    /// these segments.
    Share,
    /// The client cannot use the server's segment: bodies of replies are sent again.
    Unshare,
    /// [`thalweg_layout::WriteObject::lease`]: the reply is a handle, which ends the lease when it is dropped, or nothing
    Lease(u64),
    /// [`thalweg_layout::ReadObject::life`]
    Life(u64),
}

/// A reply of the daemon. Those that follow [`Request::Hello`] keep their numbers: a peer of another version is told so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Success; with a body if the request returns bytes.
    Done,
    /// To [`Request::Hello`].
    Welcome {
        /// The session, which further connections of the same process name.
        session: u128,
        /// Description of the layout, for messages.
        about: String,
    },
    /// A handle, or a length.
    Number(u64),
    /// To [`Request::Stat`]: length, whether it is a folder, identity.
    Stat(u64, bool, u64),
    /// To [`Request::Attributes`].
    Attributes {
        /// 0 file, 1 folder, 2 link.
        kind: u8,
        /// Bytes.
        length: u64,
        /// Permissions.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Last read, last write, last change.
        times: [Time; 3],
        /// Names.
        links: u64,
        /// Identity.
        identity: u64,
    },
    /// To [`Request::Space`].
    Space([u64; 5]),
    /// A link's target, a file's path.
    Text(String),
    /// The requested item does not exist.
    None,
    /// The body that the request lends cannot be read: the request is to be sent again, with its bytes. Nothing was done.
    Unread,
    /// The request failed.
    Failed {
        /// The error's kind.
        kind: u8,
        /// The system's error number.
        number: i32,
        /// The failed operation.
        what: String,
        /// The object.
        object: Option<String>,
        /// The byte in the object.
        byte: Option<u64>,
        /// What is still safe.
        safe: Option<String>,
        /// The cause.
        cause: Option<String>,
    },
    /// To [`Request::Lock`] and [`Request::TestLock`], instead of a success: a lock that conflicts, with its first byte, its length and
    /// the PID of its owner, and how many come first.
    Met(LockKind, u64, u64, i32, u32),
    /// To [`Request::Life`]: whether the file has a lease, and the time of its last change.
    Life(Option<bool>, Option<Time>),
}

/// The body of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// So many bytes follow.
    Sent(usize),
    /// So many pieces of the sender's memory, which are listed.
    Lent(usize),
    /// So many bytes at the beginning of the sender's segment.
    Shared(usize),
}

impl Body {
    /// Bytes of a body that is sent or shared.
    ///
    /// # Errors
    /// `Corrupt` for a lent one, which only requests have.
    pub fn sent(self) -> Result<usize> {
        match self {
            Body::Sent(bytes) | Body::Shared(bytes) => Ok(bytes),
            Body::Lent(_) => Err(Error::new(ErrorKind::Corrupt, "a reply that lends its body")),
        }
    }
}

/// Length of the head, and the body.
///
/// # Errors
/// `Corrupt` if a length exceeds the protocol's maximum.
pub fn lengths(bytes: [u8; 8]) -> Result<(usize, Body)> {
    let [a, b, c, d, e, f, g, h] = bytes;
    let (head, body) = (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]));
    let count = (body & !(LENT | SHARED)) as usize;
    let (body, most) = match body & (LENT | SHARED) {
        0 => (Body::Sent(count), LONGEST_BODY),
        LENT => (Body::Lent(count), MOST_PARTS),
        SHARED => (Body::Shared(count), segment::LENGTH),
        _ => return Err(Error::new(ErrorKind::Corrupt, "a message whose body is in two places")),
    };
    if head > LONGEST_HEAD || count > most {
        let what = format!("a message of {head} and {count} bytes or pieces: longer than any");
        return Err(Error::new(ErrorKind::Corrupt, what));
    }
    Ok((head, body))
}

/// Pieces of memory as a lent body lists them.
pub fn pieces_out(pieces: &[(u64, u64)]) -> Vec<u8> {
    pieces.iter().flat_map(|(address, length)| [address.to_le_bytes(), length.to_le_bytes()]).flatten().collect()
}

/// The pieces of a lent body, and the bytes of all of them.
///
/// # Errors
/// `Corrupt` if they are longer than a body may be.
pub fn pieces_in(list: &[u8]) -> Result<(Vec<(u64, u64)>, usize)> {
    let (numbers, _) = list.as_chunks::<8>();
    let pieces: Vec<(u64, u64)> =
        numbers.chunks_exact(2).map(|n| (u64::from_le_bytes(n[0]), u64::from_le_bytes(n[1]))).collect();
    let total = pieces.iter().try_fold(0u64, |total, (_, length)| total.checked_add(*length));
    match total.and_then(|total| usize::try_from(total).ok()).filter(|total| *total <= LONGEST_BODY) {
        Some(total) => Ok((pieces, total)),
        None => Err(Error::new(ErrorKind::Corrupt, "a message that lends more than a body may have")),
    }
}

/// The first bytes of a message.
///
/// # Errors
/// `OutOfBounds` if a length exceeds the protocol's maximum.
pub fn header(head: usize, body: usize) -> Result<[u8; 8]> {
    if head > LONGEST_HEAD || body > LONGEST_BODY {
        let what = format!("{head} and {body} bytes are too long to be sent to the daemon");
        return Err(Error::new(ErrorKind::OutOfBounds, what));
    }
    let mut out = [0; 8];
    out[..4].copy_from_slice(&(head as u32).to_le_bytes());
    out[4..].copy_from_slice(&(body as u32).to_le_bytes());
    Ok(out)
}

/// A head as bytes.
///
/// # Errors
/// `InvalidArgument` if serialization fails, which no message of this module does.
pub fn encode(head: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_allocvec(head)
        .map_err(|e| Error::new(ErrorKind::InvalidArgument, format!("cannot write a message: {e}")))
}

/// A head from bytes.
///
/// # Errors
/// `Corrupt` if the bytes are not exactly one message.
pub fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((head, [])) => Ok(head),
        Ok((_, rest)) => {
            let what = format!("a damaged message: {} bytes after its end", rest.len());
            Err(Error::new(ErrorKind::Corrupt, what))
        }
        Err(e) => Err(Error::new(ErrorKind::Corrupt, format!("a damaged message: {e}"))),
    }
}

/// Names as a body: each ended by a zero byte.
pub fn names_out(names: &[String]) -> Vec<u8> {
    names.iter().flat_map(|name| name.bytes().chain([0])).collect()
}

/// Names from a body.
///
/// # Errors
/// `Corrupt` if the names are not UTF-8.
pub fn names_in(body: &[u8]) -> Result<Vec<String>> {
    let text = std::str::from_utf8(body)
        .map_err(|e| Error::new(ErrorKind::Corrupt, format!("a damaged message: names that are no text, {e}")))?;
    Ok(text.split_terminator('\0').map(str::to_string).collect())
}

impl From<OpenWrite> for How {
    fn from(how: OpenWrite) -> How {
        match how {
            OpenWrite::Replace => How::Replace,
            OpenWrite::New => How::New,
            OpenWrite::Existing => How::Existing,
            OpenWrite::Any => How::Any,
        }
    }
}

impl From<How> for OpenWrite {
    fn from(how: How) -> OpenWrite {
        match how {
            How::Replace => OpenWrite::Replace,
            How::New => OpenWrite::New,
            How::Existing => OpenWrite::Existing,
            How::Any => OpenWrite::Any,
        }
    }
}

impl From<locks::Kind> for LockKind {
    fn from(kind: locks::Kind) -> LockKind {
        match kind {
            locks::Kind::Shared => LockKind::Shared,
            locks::Kind::Exclusive => LockKind::Exclusive,
            locks::Kind::None => LockKind::None,
        }
    }
}

impl From<LockKind> for locks::Kind {
    fn from(kind: LockKind) -> locks::Kind {
        match kind {
            LockKind::Shared => locks::Kind::Shared,
            LockKind::Exclusive => locks::Kind::Exclusive,
            LockKind::None => locks::Kind::None,
        }
    }
}

impl From<locks::Family> for LockFamily {
    fn from(family: locks::Family) -> LockFamily {
        match family {
            locks::Family::Whole => LockFamily::Whole,
            locks::Family::Ranges => LockFamily::Ranges,
        }
    }
}

impl From<LockFamily> for locks::Family {
    fn from(family: LockFamily) -> locks::Family {
        match family {
            LockFamily::Whole => locks::Family::Whole,
            LockFamily::Ranges => locks::Family::Ranges,
        }
    }
}

impl From<locks::Count> for Counting {
    fn from(count: locks::Count) -> Counting {
        match count {
            locks::Count::Read => Counting::Read,
            locks::Count::Set(to) => Counting::Set(to),
            locks::Count::Add(more) => Counting::Add(more),
        }
    }
}

impl From<Counting> for locks::Count {
    fn from(count: Counting) -> locks::Count {
        match count {
            Counting::Read => locks::Count::Read,
            Counting::Set(to) => locks::Count::Set(to),
            Counting::Add(more) => locks::Count::Add(more),
        }
    }
}

impl From<Option<locks::Refused>> for Reply {
    fn from(refused: Option<locks::Refused>) -> Reply {
        match refused {
            None => Reply::Done,
            Some(locks::Refused { met: locks::Met { kind, range, pid }, ahead }) => {
                Reply::Met(kind.into(), range.start, range.length, pid, ahead)
            }
        }
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Time {
        let whole = |since: Duration| i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Time(whole(since), since.subsec_nanos()),
            Err(before) => match (whole(before.duration()), before.duration().subsec_nanos()) {
                (seconds, 0) => Time(-seconds, 0),
                (seconds, part) => Time(-seconds - 1, 1_000_000_000 - part),
            },
        }
    }
}

impl From<Time> for SystemTime {
    fn from(Time(seconds, nanoseconds): Time) -> SystemTime {
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let time = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        time.and_then(|time| time.checked_add(Duration::from_nanos(nanoseconds.into()))).unwrap_or(UNIX_EPOCH)
    }
}

/// What a request by name requires for bytes that this process has written but not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// Nothing: the request does not depend on writes.
    Apart,
    /// The bytes are sent first.
    Sent,
    /// The bytes are sent first, and the known ends of files become invalid.
    Settled,
}

impl Request {
    /// What the request requires for unsent bytes of this process.
    pub fn of_unsent(&self) -> Unsent {
        use Request as R;
        match self {
            R::Stat(_) | R::Attributes(_) | R::OpenRead(_) => Unsent::Sent,
            R::OpenWrite { .. }
            | R::Rename(..)
            | R::Remove(_)
            | R::MakeLink(..)
            | R::MakeHardLink(..)
            | R::Truncate(..)
            | R::SetAttributes { .. }
            | R::SyncFolder(_) => Unsent::Settled,
            _ => Unsent::Apart,
        }
    }

    /// Whether the request changes which file a name refers to.
    pub fn changes_names(&self) -> bool {
        use Request as R;
        matches!(self, R::Rename(..) | R::Remove(_) | R::MakeLink(..) | R::MakeHardLink(..) | R::MakeStriped(..))
    }

    /// Whether the request changes nothing and may be repeated.
    pub fn only_looks(&self) -> bool {
        use Request as R;
        matches!(
            self,
            R::Stat(_)
                | R::List(_)
                | R::Attributes(_)
                | R::ReadLink(_)
                | R::XattrGet(..)
                | R::XattrList(_)
                | R::Space(_)
                | R::PlainFile(_)
                | R::Whole(..)
        )
    }

    /// Bytes that the reply's body may have, of a read.
    pub fn wanted(&self) -> u64 {
        match self {
            Request::Read(_, _, length) => u64::from(*length),
            Request::ReadParts { parts, .. } => parts.iter().fold(0, |total, part| total.saturating_add(part.1)),
            _ => 0,
        }
    }

    /// The request for a change of attributes.
    pub fn change(path: &str, change: &Change) -> Request {
        Request::SetAttributes {
            path: path.into(),
            mode: change.mode,
            uid: change.uid,
            gid: change.gid,
            atime: change.atime.map(Time::from),
            mtime: change.mtime.map(Time::from),
        }
    }
}

/// Encodes [`SetXattr`] as a number.
pub fn how_out(how: SetXattr) -> u8 {
    match how {
        SetXattr::Any => 0,
        SetXattr::New => 1,
        SetXattr::Existing => 2,
    }
}

/// How an attribute is set.
///
/// # Errors
/// `Corrupt` for other numbers.
pub fn how_in(how: u8) -> Result<SetXattr> {
    match how {
        0 => Ok(SetXattr::Any),
        1 => Ok(SetXattr::New),
        2 => Ok(SetXattr::Existing),
        other => Err(Error::new(ErrorKind::Corrupt, format!("a damaged message: no such way to set: {other}"))),
    }
}

impl From<Stat> for Reply {
    fn from(about: Stat) -> Reply {
        Reply::Stat(about.length, about.is_folder, about.identity)
    }
}

impl From<Attributes> for Reply {
    fn from(about: Attributes) -> Reply {
        Reply::Attributes {
            kind: match about.kind {
                Kind::File => 0,
                Kind::Folder => 1,
                Kind::Link => 2,
            },
            length: about.length,
            mode: about.mode,
            uid: about.uid,
            gid: about.gid,
            times: [about.atime, about.mtime, about.ctime].map(Time::from),
            links: about.links,
            identity: about.identity,
        }
    }
}

impl From<Space> for Reply {
    fn from(space: Space) -> Reply {
        Reply::Space([space.bytes, space.free, space.available, space.objects, space.objects_free])
    }
}

impl From<&Error> for Reply {
    fn from(error: &Error) -> Reply {
        // Long texts are truncated at a character boundary.
        let short = |text: String| text.chars().take(4096).collect::<String>();
        Reply::Failed {
            kind: error.kind().code(),
            number: errno::of(error),
            what: short(error.what().to_string()),
            object: error.place().object.clone().map(short),
            byte: error.place().byte,
            safe: error.still_safe().map(|safe| short(safe.to_string())),
            cause: std::error::Error::source(error).map(|cause| short(cause.to_string())),
        }
    }
}

impl Reply {
    /// Turns a reported failure into an error; other replies stay.
    ///
    /// # Errors
    /// The reported failure.
    pub fn or_failure(self) -> Result<Reply> {
        let Reply::Failed { kind, number, what, object, byte, safe, cause } = self else { return Ok(self) };
        let number = Errno::from_raw_os_error(number.clamp(1, 4095));
        let mut error = Error::new(ErrorKind::from_code(kind), what);
        if let Some(text) = cause {
            error = error.caused_by(Cause { text, number: number.into() });
        }
        if let Some(object) = object {
            error = error.in_object(object);
        }
        if let Some(byte) = byte {
            error = error.at_byte(byte);
        }
        Err(match safe {
            Some(safe) => error.safe(safe),
            None => error,
        })
    }

    /// Decodes the reply to [`Request::Stat`].
    ///
    /// # Errors
    /// `Corrupt` for any other.
    pub fn stat(self) -> Result<Stat> {
        match self {
            Reply::Stat(length, is_folder, identity) => Ok(Stat { length, is_folder, identity }),
            other => Err(other.unexpected()),
        }
    }

    /// Decodes the reply to [`Request::Attributes`].
    ///
    /// # Errors
    /// `Corrupt` for any other.
    pub fn attributes(self) -> Result<Attributes> {
        let Reply::Attributes { kind, length, mode, uid, gid, times, links, identity } = self else {
            return Err(self.unexpected());
        };
        let [atime, mtime, ctime] = times.map(SystemTime::from);
        let kind = match kind {
            0 => Kind::File,
            1 => Kind::Folder,
            2 => Kind::Link,
            _ => return Err(Reply::None.unexpected()),
        };
        Ok(Attributes { kind, length, mode, uid, gid, atime, mtime, ctime, links, identity })
    }

    /// Decodes a reply that is a number.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn number(self) -> Result<u64> {
        match self {
            Reply::Number(number) => Ok(number),
            other => Err(other.unexpected()),
        }
    }

    /// Decodes the reply to [`Request::Life`].
    ///
    /// # Errors
    /// As [`Reply::number`].
    pub fn life(self) -> Result<Life> {
        match self {
            Reply::Life(leased, modified) => Ok(Life { leased, modified: modified.map(SystemTime::from) }),
            other => Err(other.unexpected()),
        }
    }

    /// Decodes the reply to [`Request::Lock`].
    ///
    /// # Errors
    /// `Corrupt` for any other.
    pub fn refused(self) -> Result<Option<locks::Refused>> {
        match self {
            Reply::Done => Ok(None),
            Reply::Met(kind, start, length, pid, ahead) => {
                let met = locks::Met { kind: kind.into(), range: locks::Range { start, length }, pid };
                Ok(Some(locks::Refused { met, ahead }))
            }
            other => Err(other.unexpected()),
        }
    }

    /// Decodes the reply to [`Request::Space`].
    ///
    /// # Errors
    /// `Corrupt` for any other.
    pub fn space(self) -> Result<Space> {
        match self {
            Reply::Space([bytes, free, available, objects, objects_free]) => {
                Ok(Space { bytes, free, available, objects, objects_free })
            }
            other => Err(other.unexpected()),
        }
    }

    /// The error for a reply that does not fit its request.
    pub fn unexpected(&self) -> Error {
        Error::new(ErrorKind::Corrupt, "the daemon's answer does not match the request")
    }
}

/// Cause of the daemon's failure, with the system's error number.
#[derive(Debug)]
struct Cause {
    text: String,
    number: std::io::Error,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_failure_arrives_as_it_was_with_number_place_and_reason() {
        let cause = std::io::Error::from(Errno::NOTEMPTY);
        let error = Error::new(ErrorKind::InvalidArgument, "cannot remove")
            .caused_by(cause)
            .in_object("a/b")
            .at_byte(7)
            .safe("the rest");
        let sent = encode(&Reply::from(&error)).unwrap();
        let came = decode::<Reply>(&sent).unwrap().or_failure().unwrap_err();
        assert_eq!(came.to_string(), error.to_string());
        assert_eq!((came.kind(), errno::of(&came)), (error.kind(), Errno::NOTEMPTY.raw_os_error()));
        for kind in ErrorKind::ALL {
            let error = Error::new(kind, "x");
            let came = Reply::from(&error).or_failure().unwrap_err();
            assert_eq!((came.kind(), errno::of(&came)), (kind, errno::of(&error)));
        }
    }

    #[test]
    fn a_peer_of_another_version_understands_the_refusal() {
        let number = |message: Vec<u8>| message[0];
        let hello = Request::Hello { version: 1, prefix: "/".into(), session: None };
        let failed = Reply::from(&Error::new(ErrorKind::Unsupported, "x"));
        assert_eq!(number(encode(&hello).unwrap()), 0);
        assert_eq!(number(encode(&Reply::Welcome { session: 1, about: String::new() }).unwrap()), 1);
        assert_eq!(number(encode(&failed).unwrap()), 9);
    }

    #[test]
    fn moments_before_and_after_1970_arrive() {
        for (seconds, nanoseconds) in [(0, 0), (5, 1), (-5, 0), (-5, 999_999_999), (1_800_000_000, 7)] {
            let time = Time(seconds, nanoseconds);
            assert_eq!(Time::from(SystemTime::from(time)), time);
        }
    }

    proptest! {
        /// Damaged bytes never cause a panic or more memory than their own length.
        #[test]
        fn damaged_messages_are_refused(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..100usize, at in 0..100usize, with: u8
        ) {
            let _ = (decode::<Request>(&bytes), decode::<Reply>(&bytes), names_in(&bytes));
            let whole = encode(&Request::Rename("some/long/name".repeat(3), "other".into())).unwrap();
            prop_assert!(decode::<Request>(&whole[..cut.min(whole.len() - 1)]).is_err());
            let mut more = whole.clone();
            more.push(with);
            prop_assert!(decode::<Request>(&more).is_err());
            bytes = whole;
            let at = at % bytes.len();
            bytes[at] = with;
            let _ = decode::<Request>(&bytes);
        }

        #[test]
        fn lengths_beyond_all_that_is_sent_are_refused(bytes: [u8; 8]) {
            match lengths(bytes) {
                Ok((head, Body::Sent(body))) => {
                    prop_assert!(head <= LONGEST_HEAD && body <= LONGEST_BODY);
                    prop_assert_eq!(header(head, body).unwrap(), bytes);
                }
                Ok((head, Body::Lent(pieces))) => prop_assert!(head <= LONGEST_HEAD && pieces <= MOST_PARTS),
                Ok((head, Body::Shared(body))) => prop_assert!(head <= LONGEST_HEAD && body <= segment::LENGTH),
                Err(_) => {}
            }
        }

        #[test]
        fn pieces_come_back_or_are_more_than_a_body(pieces in prop::collection::vec((any::<u64>(), any::<u64>()), 0..5)) {
            let total = pieces.iter().try_fold(0u64, |total, piece| total.checked_add(piece.1));
            match pieces_in(&pieces_out(&pieces)) {
                Ok((back, bytes)) => {
                    prop_assert_eq!(&back, &pieces);
                    prop_assert_eq!(Some(bytes as u64), total);
                }
                Err(_) => prop_assert!(total.is_none_or(|total| total > LONGEST_BODY as u64)),
            }
        }

        #[test]
        fn names_come_back(names in prop::collection::vec("[^\0/]{1,9}", 0..9)) {
            prop_assert_eq!(names_in(&names_out(&names)).unwrap(), names);
        }
    }
}
