//! `SOCKET`: a running program shows its arrays to browsers, a plane of each output as large as the screen needs it.
//!
//! | question | answer |
//! |----------|--------|
//! | who writes | no rank writes a file; beside it, other methods of the group do |
//! | when | inside `close`: the elements that a viewer asked for are gathered; rank 0 passes them on in the background |
//! | where | the program `thalweg viewers`, which rank 0 starts, listens on loopback unless told otherwise, and serves the page and its WebSocket |
//! | what moves | without a viewer, one broadcast of some bytes for each output; with viewers, what each block is and the elements of their planes, to rank 0 |
//! | memory | on rank 0, the planes of one output: at most [`protocol::MOST_ELEMENTS`] elements of 4 bytes, and twice that while they are put together; on each rank, while somebody looks at a plane, blocks that methods beside this one would write at once: they are buffered until close, as the buffer has room. A variable is not shown where blocks of it went to a file before close |
//! | who calls | every rank calls `open` and `close`; all wait for rank 0's word at close |
//! | on failure | an output never fails because of viewers: where the program cannot start, a viewer stalls, a rank cannot read its blocks or does not answer, frames are missing, and a warning says so once |
//!
//! A viewer that does not keep up gets the last output. It says what it wants, and gets it from the next output on.
//!
//! Source: the visual transports of the ADIOS papers (a live renderer on a socket); `docs/decisions/0094-viewers-are-served-by-another-program.md`.

pub mod plane;
pub mod protocol;
mod serving;

use crate::whole_arrays::content::{Block, Rules};
use plane::Plane;
use protocol::{Told, Wanted};
use serde::{Deserialize, Serialize};
use serving::Serving;
use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_comm::guarded::caught;
use thalweg_comm::outcome::apart;
use thalweg_comm::tree_gather::ChildMessage;
use thalweg_layout::WriteObject;
use thalweg_movement::method::null::{self, Counted};
use thalweg_movement::method::{self, CloseRequest, Finished, MethodKind, Opened, Parameter, Parameters};
use thalweg_movement::output_file::cache::Cache;
use thalweg_movement::pack::Reach;
use thalweg_movement::pack::blocks::{Takes, WrittenBlock};
use thalweg_movement::summary::Summary;
use thalweg_movement::{Closed, Method, OpenRequest};
use thalweg_types::{ByteOrder, Error, ErrorKind, Result, Value};

const LISTEN: Parameter = Parameter::text(
    "listen",
    "an address and a port, as 127.0.0.1:8765",
    "where viewers connect; port 0 is any that is free. Other addresses than those of this machine alone let others on the network see the run: they need the token, which the address of the page contains",
)
.or_else("127.0.0.1:0");

/// `SOCKET` in the registry.
pub const KIND: MethodKind = MethodKind {
    names: &["SOCKET"],
    id: method::STORES_NOTHING,
    about: "shows planes of the arrays to browsers while the program runs",
    parameters: &[LISTEN],
    least: 0,
    tried: &[],
    make,
};

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    let listen = parameters.text(&LISTEN).unwrap_or("127.0.0.1:0").to_string();
    if listen.parse::<std::net::SocketAddr>().is_err() {
        let what = format!("parameter listen={listen}: expected {}", LISTEN.expected());
        return Err(Error::new(ErrorKind::Config, what));
    }
    Ok(Box::new(Socket { listen, open: None, before: Vec::new() }))
}

struct Socket {
    listen: String,
    open: Option<Output>,
    before: Vec<Finished>,
}

/// State of an output.
struct Output {
    cache: Arc<Cache>,
    path: String,
    counted: Counted,
    /// Somebody looked at the output before.
    is_watched: bool,
}

static RULES: Rules =
    Rules { format: "viewers", is_no_name: |_| false, axes: usize::MAX, has_groups: false, attributes: None };

/// A rank's part of what viewers see. The values of its pieces follow, in their order.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Part {
    /// [`Summary::encode`].
    summary: Vec<u8>,
    pieces: Vec<PartOfPlane>,
    /// Positions of what was asked for of which a block is no longer in memory.
    gone: Vec<usize>,
}

/// Elements of a plane that a block has.
#[derive(Debug, Serialize, Deserialize)]
struct PartOfPlane {
    /// The position of what was asked for.
    ask: usize,
    /// Extents of the array.
    shape: Vec<u64>,
    offset: Vec<u64>,
    count: Vec<u64>,
}

impl Method for Socket {
    fn name(&self) -> &'static str {
        KIND.names[0]
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let counted = null::count(request, KIND.names[0]);
        let time_index = counted.time_index;
        let is_watched = request.cache.of::<Serving>().lock().is_watched(&self.listen, request.group);
        self.open = Some(Output { cache: request.cache.clone(), path: request.path.into(), counted, is_watched });
        Ok(Opened { time_index, first_time: 1, run: request.run, levels: Vec::new() })
    }

    fn at_once(&self, _: &Reach) -> Option<u64> {
        // Blocks that another method writes at once are not in memory at close. They stay there while somebody looks.
        self.open.as_ref().is_none_or(|open| !open.is_watched).then_some(0)
    }

    fn takes(&self) -> Takes {
        Takes::Blocks
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        Ok((&null::Nowhere, 0))
    }

    fn after(&mut self, finished: &[Finished]) {
        self.before = finished.to_vec();
    }

    fn close(&mut self, mut request: CloseRequest<'_, '_>) -> Result<Closed> {
        let open = self.open.take().ok_or_else(method::not_open)?;
        let failed = request.failed.take();
        let before = std::mem::take(&mut self.before);
        // Where a rank is lost, nobody waits for it once more.
        if !before.iter().any(Finished::lost_a_rank)
            && let Err(e) = open.show(&mut request, failed.is_some(), &before, &self.listen)
        {
            thalweg_warnings::tell_once(&format!("viewers do not see all outputs of {}: {e}", open.path));
        }
        open.counted.close();
        failed.map_or(Ok(Closed::default()), Err)
    }
}

impl Output {
    /// Collective: what viewers asked for goes to them.
    fn show(
        &self,
        request: &mut CloseRequest<'_, '_>,
        is_failed: bool,
        before: &[Finished],
        listen: &str,
    ) -> Result<()> {
        let comm = request.comm;
        let group = &request.header.group;
        let wanted = (comm.rank() == 0).then(|| self.cache.of::<Serving>().lock().wanted(listen, group)).flatten();
        let mut told = wanted
            .filter(|wanted| wanted.viewers > 0)
            .map_or_else(Vec::new, |wanted| serde_json::to_vec(&wanted).unwrap_or_default());
        comm.broadcast(0, &mut told)?;
        let wanted = serde_json::from_slice::<Wanted>(&told).ok();
        let is_watched = wanted.as_ref().is_some_and(|wanted| !wanted.asks.is_empty());
        self.cache.of::<Serving>().lock().watches(listen, group, is_watched);
        let Some(wanted) = wanted else { return Ok(()) };
        // Of a rank whose output failed there is nothing to see; the close says why.
        let part = match is_failed {
            true => Ok(Vec::new()),
            false => caught("show the blocks", || self.part(request, &wanted)),
        };
        let (part, own) = apart(part);
        if let Some(parts) = comm.gather(0, &part.unwrap_or_default())? {
            let stored = Finished::last_stored(before);
            let path = stored.map_or(&*self.path, |one| &*one.path);
            let step = stored.map_or(u64::from(self.counted.time_index.saturating_sub(1)), |one| one.step);
            let (messages, gone) = messages(path, group, step, &wanted, &parts);
            // Before somebody looked, blocks were written at once: the next output is shown.
            for name in gone.iter().filter(|_| self.is_watched) {
                thalweg_warnings::tell_once(&format!(
                    "viewers do not see {name}: the buffer has no room for its blocks"
                ));
            }
            self.cache.of::<Serving>().lock().tell(listen, group, messages);
        }
        own
    }

    /// What this rank has of it, as bytes.
    fn part(&self, request: &mut CloseRequest<'_, '_>, wanted: &Wanted) -> Result<Vec<u8>> {
        let fortran = request.header.fortran;
        let mut part = Part { summary: Summary::of(request.pack, fortran, None).encode(), ..Part::default() };
        let mut values: Vec<f32> = Vec::new();
        let blocks = request.blocks(Some((&null::Nowhere, 0)))?;
        for written in &blocks {
            let block = Block::of(written.spec(), fortran, &RULES)?;
            let (shape, offset) = match &block.shape {
                Some(shape) => (shape.clone(), block.offset.clone()),
                None => (block.count.clone(), vec![0; block.count.len()]),
            };
            for (ask, own) in wanted.asks.iter().enumerate().filter(|(_, ask)| ask.variable == block.name) {
                let found = plane::plane(own, &shape).and_then(|plane| plane.piece(&offset, &block.count));
                if let Some(piece) = found {
                    if written.is_stored() {
                        part.gone.push(ask);
                        continue;
                    }
                    values.extend(elements(written, &piece.elements)?);
                    let (offset, count) = (piece.offset, piece.count);
                    part.pieces.push(PartOfPlane { ask, shape: shape.clone(), offset, count });
                }
            }
        }
        let head = serde_json::to_vec(&part).map_err(|e| Error::new(ErrorKind::InvalidArgument, e.to_string()))?;
        let mut bytes = (head.len() as u64).to_ne_bytes().to_vec();
        bytes.extend(head);
        values.iter().for_each(|value| bytes.extend(value.to_ne_bytes()));
        Ok(bytes)
    }
}

/// Elements of a block by their positions; of complex numbers the magnitude.
fn elements(block: &WrittenBlock<'_>, positions: &[u64]) -> Result<Vec<f32>> {
    let (element, values) = (block.spec().element, block.values()?);
    let size = element.size() as usize;
    let one = |at: &u64| {
        let from = *at as usize * size;
        let value = values.get(from..from + size).and_then(|own| Value::from_bytes(element, own, ByteOrder::NATIVE));
        match value {
            Some(Value::Complex([re, im])) => re.hypot(im),
            Some(Value::DoubleComplex([re, im])) => re.hypot(im) as f32,
            Some(Value::Char(byte)) => f32::from(byte),
            Some(Value::LongDouble(bytes)) => thalweg_types::value::long_double_to_f64(&bytes) as f32,
            Some(value) => value.as_f64().map_or(f32::NAN, |value| value as f32),
            None => f32::NAN,
        }
    };
    Ok(positions.iter().map(one).collect())
}

/// A rank's part, and its values.
fn parsed(bytes: &[u8]) -> Option<(Part, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u64::from_ne_bytes(*length)).ok()?;
    let part = serde_json::from_slice(rest.get(..length)?).ok()?;
    Some((part, &rest[length..]))
}

/// Rank 0: the messages for viewers, and the variables of which no plane is shown because blocks of it are no longer in memory. Pure.
/// What of a rank is missing is missing.
fn messages(output: &str, group: &str, step: u64, wanted: &Wanted, parts: &[Vec<u8>]) -> (Vec<u8>, BTreeSet<String>) {
    let mut summary = Summary::default();
    let mut gone = BTreeSet::new();
    let mut frames: Vec<Option<Frame>> = vec![None; wanted.asks.len()];
    for (part, mut values) in parts.iter().filter_map(|bytes| parsed(bytes)) {
        summary.join(ChildMessage { bytes: &part.summary, short: None });
        gone.extend(part.gone);
        for piece in part.pieces {
            let number = piece.count.iter().product::<u64>() as usize;
            let Some((own, rest)) = values.split_at_checked(size_of::<f32>() * number) else { break };
            values = rest;
            let own: Vec<f32> =
                own.chunks_exact(4).map(|word| f32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect();
            let Some(frame) = frames.get_mut(piece.ask) else { continue };
            if frame.is_none()
                && let Some(plane) = plane::plane(&wanted.asks[piece.ask], &piece.shape)
            {
                let values = vec![f32::NAN; plane.elements()];
                *frame = Some(Frame { shape: piece.shape.clone(), plane, values });
            }
            // Local blocks of one variable have shapes of their own: the first one is shown.
            if let Some(Frame { shape, plane, values }) = frame
                && *shape == piece.shape
            {
                plane.put(&piece.offset, &piece.count, &own, values);
            }
        }
    }
    let (output, group) = (output.to_string(), group.to_string());
    let mut bytes = protocol::encode(&Told::Step { output, group, step, variables: summary.to_json() }, &[]);
    for (number, (ask, frame)) in wanted.asks.iter().zip(frames).enumerate() {
        if let Some(Frame { shape, plane, values }) = frame
            && !gone.contains(&number)
        {
            bytes.extend(protocol::encode(&Told::Frame { step, ask: ask.clone(), shape, plane }, &values));
        }
    }
    let names = gone.iter().filter_map(|ask| Some(wanted.asks.get(*ask)?.variable.clone())).collect();
    (bytes, names)
}

/// A plane of an array while blocks are put into it.
#[derive(Clone)]
struct Frame {
    shape: Vec<u64>,
    plane: Plane,
    values: Vec<f32>,
}
