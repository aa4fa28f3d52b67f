//! Pieces with wide gaps, of objects whose server picks their bytes out: only these are moved, as a view of the object.

use super::{Opening, Order, opened, too_short};
use crate::object::Object;
use crate::plan::{Limits, Piece, Plan};
use std::sync::Arc;
use thalweg_types::element::swap_bytes;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::{Outline, View};

/// Bytes of one request.
const REQUEST: u64 = 1 << 20;

/// What a request more costs, as bytes that could be moved meanwhile.
const REQUEST_COST: u64 = 64 << 10;

/// Whether picking a piece out saves more than its requests cost: to register its view, to read, and to forget the view. Pieces with
/// short spans are read with those beside them, as everywhere.
///
/// - `kept`: of each number some bytes, where any saving is one; else gaps must also be long beside what is wanted.
fn is_sparse(piece: &Piece, kept: bool, limits: &Limits) -> bool {
    let bytes = piece.bytes();
    let gaps = piece.transferred(limits) - bytes;
    let more = (piece.reads(limits) - 1).saturating_mul(REQUEST_COST);
    let own = 3 * REQUEST_COST + bytes / REQUEST * REQUEST_COST;
    (1..limits.direct).contains(&piece.run) && gaps.saturating_add(more) > if kept { own } else { own.max(bytes / 2) }
}

/// What of a piece is picked out, if that is worth it: its kept bytes, or all.
fn picked(piece: &Piece, order: &Order<'_>, limits: &Limits) -> Option<Piece> {
    let wanted = order.kept.map_or_else(|| piece.clone(), |kept| kept.of(piece));
    is_sparse(&wanted, order.kept.is_some(), limits).then_some(wanted)
}

/// Opens the object of a piece.
fn object(piece: &Piece, open: Opening<'_>) -> Result<Object> {
    opened(piece.file, (piece.source.saturating_add(piece.span()), piece.source), open)
}

/// Reads such pieces of each order, and returns the plans of what is left; `None` where there is no such piece, or no server picks its
/// bytes out. Blocks that share elements are left as they are.
///
/// # Errors
/// As [`super::execute`].
/// # Memory
/// 1 MiB.
pub fn apart(
    orders: &mut [Order<'_>],
    limits: &Limits,
    open: Opening<'_>,
) -> std::result::Result<Option<Vec<Plan>>, (Error, Option<usize>)> {
    let sparse = |order: &Order<'_>| match order.plan.overlapping {
        true => None,
        false => order.plan.pieces.iter().find(|piece| picked(piece, order, limits).is_some()).cloned(),
    };
    // All of a file's objects lie in one layout.
    let found = orders.iter().enumerate().find_map(|(number, order)| Some((number, sparse(order)?)));
    let Some((number, first)) = found else { return Ok(None) };
    if !object(&first, open).map_err(|e| (e, Some(number)))?.picks() {
        return Ok(None);
    }
    let mut left = Vec::with_capacity(orders.len());
    for (number, order) in orders.iter_mut().enumerate() {
        let of = order.plan;
        let mut rest = Plan { pieces: Vec::new(), coded: Vec::new(), ..*of };
        if of.overlapping {
            rest.pieces = of.pieces.clone();
        } else {
            for piece in &of.pieces {
                let done = match picked(piece, order, limits) {
                    Some(wanted) => read(&wanted, order, open).map_err(|e| (e, Some(number)))?,
                    None => false,
                };
                if !done {
                    rest.pieces.push(piece.clone());
                }
            }
        }
        left.push(rest);
    }
    Ok(Some(left))
}

/// Reads a piece; false where its bytes were read before, with others, or where those that are not kept matter.
fn read(piece: &Piece, order: &mut Order<'_>, open: Opening<'_>) -> Result<bool> {
    let object = object(piece, open)?;
    if object.has(piece.source, piece.span()) {
        return Ok(false);
    }
    let view = Arc::new(view(piece)?);
    let (bytes, run) = (piece.bytes(), piece.run as usize);
    let most = (REQUEST / piece.run).max(1) * piece.run;
    let mut window = vec![0; most.min(bytes) as usize];
    // Bytes of the view that were asked for, and where in the window the next run lies.
    let (mut asked, mut at, mut outcome) = (0, window.len(), Ok(true));
    piece.for_each_run(&mut |_, target| {
        if !matches!(outcome, Ok(true)) {
            return;
        }
        if at == window.len() {
            window.truncate((bytes - asked) as usize);
            if let Err(e) = object.pick(&view, asked, &mut window) {
                outcome = Err(e);
                return;
            }
            (asked, at) = (asked + window.len() as u64, 0);
        }
        let to = usize::try_from(piece.target + target).ok();
        let Some(to) = to.and_then(|to| order.out.get_mut(to..to.checked_add(run)?)) else {
            outcome = Err(too_short());
            return;
        };
        to.copy_from_slice(&window[at..at + run]);
        match order.kept {
            // Part of one number.
            Some(_) if order.word > 1 => to.reverse(),
            Some(_) => {}
            None => swap_bytes(to, order.word),
        }
        outcome = Ok(!order.kept.is_some_and(|kept| kept.may_lose(to)));
        at += run;
    });
    outcome
}

/// The needed bytes of a piece, in the order of its runs.
fn view(piece: &Piece) -> Result<View> {
    let far = || Error::new(ErrorKind::OutOfBounds, "a read beyond the largest file");
    let signed = |n: u64| i64::try_from(n).map_err(|_| far());
    let repeats = piece.strides.iter().map(|s| Ok((s.count, signed(s.source)?))).collect::<Result<Vec<_>>>()?;
    let outline = Outline { repeats, low: 0, high: signed(piece.run)? };
    View::of_outline(piece.source, &outline, signed(piece.span())?)
}
