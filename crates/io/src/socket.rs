//! `SOCKET`: a running program shows its arrays to browsers, a plane of each output as large as the screen needs it.
//!
//! | question | answer |
//! |----------|--------|
//! | who writes | no rank writes a file; beside it, other methods of the group do |
//! | when | inside `close`: the elements that a viewer asked for are gathered; rank 0 passes them on in the background |
//! | where | the program `thalweg viewers`, which rank 0 starts, listens on loopback unless told otherwise, and serves the page and its WebSocket |
//! | what moves | without a viewer, one broadcast of some bytes for each output; with viewers, what each block is and the elements of their planes, to rank 0 |
//! | memory | the planes, at most 2048² elements each; the messages of one output |
//! | who calls | every rank calls `open` and `close`; all wait for rank 0's word at close |
//! | on failure | an output never fails because of viewers: where the program cannot start, a viewer stalls or a rank cannot read its blocks, frames are missing, and a warning says so once |
//!
//! A viewer that does not keep up gets the last output. It says what it wants, and gets it from the next output on.
//!
//! Source: the visual transports of the ADIOS papers (a live renderer on a socket); `docs/decisions/0094-viewers-are-served-by-another-program.md`.

pub mod plane;
pub mod protocol;
mod serving;

use crate::whole_arrays::content::{Block, Rules};
use plane::Plane;
use protocol::{Told, Variable, Wanted};
use serde::{Deserialize, Serialize};
use serving::Serving;
use std::sync::Arc;
use thalweg_comm::guarded::caught;
use thalweg_layout::WriteObject;
use thalweg_movement::method::{self, CloseRequest, MethodKind, Opened, Parameter, Parameters};
use thalweg_movement::output_file::cache::Cache;
use thalweg_movement::output_file::spill::Spill;
use thalweg_movement::pack::Reach;
use thalweg_movement::pack::blocks::{Takes, WrittenBlock};
use thalweg_movement::{Closed, Method, Mode, OpenRequest};
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Result, Value};

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
    parameters: &[LISTEN, method::SPILL_COPY],
    least: thalweg_movement::output_file::spill::LEAST,
    tried: &[],
    make,
};

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    let listen = parameters.text(&LISTEN).unwrap_or("127.0.0.1:0").to_string();
    if listen.parse::<std::net::SocketAddr>().is_err() {
        let what = format!("parameter listen={listen}: expected {}", LISTEN.expected());
        return Err(Error::new(ErrorKind::Config, what));
    }
    Ok(Box::new(Socket { listen, spill_copy: method::spill_copy(parameters)?, open: None }))
}

struct Socket {
    listen: String,
    spill_copy: usize,
    open: Option<Output>,
}

/// State of an output.
struct Output {
    cache: Arc<Cache>,
    path: String,
    /// From 0.
    step: u64,
    spill: Spill,
}

static RULES: Rules =
    Rules { format: "viewers", is_no_name: |_| false, axes: usize::MAX, has_groups: false, attributes: None };

/// A rank's part of what viewers see: values follow as bytes, in the order of the pieces.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Part {
    blocks: Vec<Seen>,
    pieces: Vec<PartOfPlane>,
}

/// A block, as the list of variables needs it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Seen {
    name: String,
    element: u8,
    shape: Vec<u64>,
    value: Option<String>,
    min: Option<f64>,
    max: Option<f64>,
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
        let key = format!("SOCKET\0{}", request.path);
        let before = match request.mode {
            Mode::Write => 0,
            Mode::AppendAfter(step) => step + 1,
            Mode::Append => request.cache.end_of(&key).unwrap_or(0),
            Mode::Update => request.cache.end_of(&key).unwrap_or(0).saturating_sub(1),
        };
        request.cache.set_end(&key, Some(before + 1));
        let spill = Spill::new(request.layout, request.path, request.comm.rank(), self.spill_copy, request.buffer);
        self.open = Some(Output { cache: request.cache.clone(), path: request.path.into(), step: before, spill });
        let time_index = u32::try_from(before + 1).unwrap_or(u32::MAX);
        Ok(Opened { time_index, first_time: 1, run: request.run, levels: Vec::new() })
    }

    fn takes(&self) -> Takes {
        Takes::Blocks
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_mut().ok_or_else(method::not_open)?;
        Ok((open.spill.through()?, 0))
    }

    fn close(&mut self, mut request: CloseRequest<'_, '_>) -> Result<Closed> {
        let open = self.open.take().ok_or_else(method::not_open)?;
        let failed = request.failed.take();
        let comm = request.comm;
        let mut told = match comm.rank() {
            0 => {
                let wanted = open.cache.of::<Serving>().lock().wanted(&self.listen).filter(|wanted| wanted.viewers > 0);
                wanted.map_or_else(Vec::new, |wanted| serde_json::to_vec(&wanted).unwrap_or_default())
            }
            _ => Vec::new(),
        };
        comm.broadcast(0, &mut told)?;
        if let Ok(wanted) = serde_json::from_slice::<Wanted>(&told) {
            let part = match &failed {
                None => caught("show the blocks", || open.part(&mut request, &wanted)).unwrap_or_else(|e| {
                    thalweg_warnings::tell_once(&format!("viewers do not see the blocks of rank {}: {e}", comm.rank()));
                    Vec::new()
                }),
                Some(_) => Vec::new(),
            };
            let parts = comm.gather(0, &part)?;
            if let Some(parts) = parts {
                let messages = messages(&open.path, &request.header.group, open.step, &wanted, &parts);
                open.cache.of::<Serving>().lock().tell(&self.listen, messages);
            }
        }
        failed.map_or(Ok(Closed::default()), Err)
    }
}

impl Output {
    /// What this rank has of it, as bytes.
    fn part(&self, request: &mut CloseRequest<'_, '_>, wanted: &Wanted) -> Result<Vec<u8>> {
        let fortran = request.header.fortran;
        let blocks = request.blocks(self.spill.object().map(|object| (object, 0)))?;
        let (mut part, mut values) = (Part::default(), Vec::new());
        for written in &blocks {
            let block = Block::of(written.spec(), fortran, &RULES)?;
            let (min, max) = written.statistics().map_or((None, None), |own| (own.min.as_f64(), own.max.as_f64()));
            let is_local = block.shape.is_none();
            let shape = block.shape.clone().unwrap_or_else(|| block.count.clone());
            let value = written.spec().value.as_ref().map(|value| match value {
                Value::String(text) => String::from_utf8_lossy(text).into_owned(),
                value => value.to_string(),
            });
            for (ask, own) in wanted.asks.iter().enumerate().filter(|(_, ask)| ask.variable == block.name) {
                let offset = if is_local { vec![0; shape.len()] } else { block.offset.clone() };
                let found = plane::plane(own, &shape).and_then(|plane| plane.piece(&offset, &block.count));
                if let Some(piece) = found {
                    values.extend(elements(written, &piece.elements)?);
                    let (offset, count) = (piece.offset, piece.count);
                    part.pieces.push(PartOfPlane { ask, shape: shape.clone(), offset, count });
                }
            }
            part.blocks.push(Seen { name: block.name, element: block.element, shape, value, min, max });
        }
        let head = serde_json::to_vec(&part).map_err(|e| Error::new(ErrorKind::InvalidArgument, e.to_string()))?;
        let mut bytes = (head.len() as u64).to_ne_bytes().to_vec();
        bytes.extend(head);
        values.iter().for_each(|value: &f32| bytes.extend(value.to_ne_bytes()));
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

/// A plane of an array while blocks are put into it.
#[derive(Clone)]
struct Frame {
    shape: Vec<u64>,
    plane: Plane,
    values: Vec<f32>,
}

/// Rank 0: the messages for viewers. Pure.
fn messages(output: &str, group: &str, step: u64, wanted: &Wanted, parts: &[Vec<u8>]) -> Vec<u8> {
    let mut variables: Vec<Variable> = Vec::new();
    let mut frames: Vec<Option<Frame>> = vec![None; wanted.asks.len()];
    for (part, mut values) in parts.iter().filter_map(|bytes| parsed(bytes)) {
        for seen in part.blocks {
            let Seen { name, element, shape, value, min, max } = seen;
            match variables.iter_mut().find(|one| one.name == name) {
                Some(known) => {
                    let least = |a: Option<f64>, b: Option<f64>| a.map_or(b, |a| b.map_or(Some(a), |b| Some(a.min(b))));
                    known.min = least(known.min, min);
                    known.max = least(known.max.map(|v| -v), max.map(|v| -v)).map(|v| -v);
                }
                None => {
                    let element = ElementType::from_code(element).map_or("unknown", ElementType::name).to_string();
                    variables.push(Variable { name, element, shape, value, min, max });
                }
            }
        }
        for piece in part.pieces {
            let number = piece.count.iter().product::<u64>() as usize;
            let Some((own, rest)) = values.split_at_checked(4 * number) else { break };
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
    let of = |name: &str| variables.iter().find(|one| one.name == name).map_or((None, None), |one| (one.min, one.max));
    let mut bytes = Vec::new();
    for (ask, frame) in wanted.asks.iter().zip(frames) {
        if let Some(Frame { shape, plane, values }) = frame {
            let (min, max) = of(&ask.variable);
            bytes.extend(protocol::encode(&Told::Frame { step, ask: ask.clone(), shape, plane, min, max }, &values));
        }
    }
    let (output, group) = (output.to_string(), group.to_string());
    let mut all = protocol::encode(&Told::Step { output, group, step, variables }, &[]);
    all.extend(bytes);
    all
}
