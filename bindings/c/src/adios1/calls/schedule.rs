//! `adios_read.h`: reads that are scheduled, performed, and given in pieces.

use super::inquire::variable_name;
use super::memory::{Arena, Owned, count, is_out, take_back};
use super::read::{State, chunk_memory, type_number, with_file};
use super::structures::{AdiosFile, AdiosSelection, AdiosVarChunk};
use super::{pointer, selection, status};
use crate::adios1::error::{Doing, Failure, Outcome, number};
use crate::adios1::read::scheduled_read::{Delivery, Read, ScheduledRead};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use thalweg_types::Selection;

/// Notes down a read.
///
/// # Safety
/// See [`super`]; `data` stays until the reads were performed or forgotten.
unsafe fn schedule(
    fp: *const AdiosFile,
    sel: *const AdiosSelection,
    place: impl FnOnce(&State) -> Outcome<c_int>,
    from: c_int,
    steps: c_int,
    data: *mut c_void,
) -> c_int {
    status(|| {
        with_file(fp, |state| {
            let place = place(state)?;
            // SAFETY: from C.
            let part = unsafe { selection::part(sel) }?;
            let memory = (!data.is_null()).then_some(data as usize);
            state.file.schedule(place, from, steps, part, memory)
        })
    })
}

/// Notes down a read, by the variable's name.
///
/// # Safety
/// See [`super`]; `data` stays until the reads were performed or forgotten.
/// # Cost
/// Looks up the variable, as [`super::inquire::adios_inq_var`], and copies the selection with all points. Reads no values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_schedule_read(
    fp: *const AdiosFile,
    sel: *const AdiosSelection,
    varname: *const c_char,
    from_steps: c_int,
    nsteps: c_int,
    data: *mut c_void,
) -> c_int {
    // SAFETY: from C.
    let place = |state: &State| state.file.find_variable(unsafe { variable_name(varname) }?).map(count);
    // SAFETY: from C.
    unsafe { schedule(fp, sel, place, from_steps, nsteps, data) }
}

/// Notes down a read, by the variable's place.
///
/// # Safety
/// As [`adios_schedule_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_schedule_read_byid(
    fp: *const AdiosFile,
    sel: *const AdiosSelection,
    varid: c_int,
    from_steps: c_int,
    nsteps: c_int,
    data: *mut c_void,
) -> c_int {
    // SAFETY: from C.
    unsafe { schedule(fp, sel, |_| Ok(varid), from_steps, nsteps, data) }
}

/// As [`adios_schedule_read`]; no transform has a parameter for reading.
///
/// # Safety
/// As [`adios_schedule_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_schedule_read_param(
    fp: *const AdiosFile,
    sel: *const AdiosSelection,
    varname: *const c_char,
    from_steps: c_int,
    nsteps: c_int,
    _param: *const c_char,
    data: *mut c_void,
) -> c_int {
    // SAFETY: from C.
    unsafe { adios_schedule_read(fp, sel, varname, from_steps, nsteps, data) }
}

/// As [`adios_schedule_read_byid`]; no transform has a parameter for reading.
///
/// # Safety
/// As [`adios_schedule_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_schedule_read_byid_param(
    fp: *const AdiosFile,
    sel: *const AdiosSelection,
    varid: c_int,
    from_steps: c_int,
    nsteps: c_int,
    _param: *const c_char,
    data: *mut c_void,
) -> c_int {
    // SAFETY: from C.
    unsafe { adios_schedule_read_byid(fp, sel, varid, from_steps, nsteps, data) }
}

/// Carries out one scheduled read.
///
/// # Safety
/// `memory` has the bytes that `reads` need, without other users during the call.
unsafe fn fetch(state: &State, request: &ScheduledRead, reads: &[Read], memory: *mut c_void) -> Outcome<()> {
    let mut at = 0usize;
    for read in reads {
        // SAFETY: within the memory, as the caller promises; one slice at a time.
        let out = unsafe { pointer::bytes_mut(memory.wrapping_byte_add(at), read.length, &request.info.name) }?;
        state.file.read_one(&request.info, read, out)?;
        at += out.len();
    }
    Ok(())
}

/// A read directly into the program's memory, of one step or of several, one after the other.
struct Straight {
    request: usize,
    steps: Vec<u64>,
    selection: Selection,
    address: usize,
    bytes: u64,
}

/// Whether no two of these share memory, so that all may be written at the same time.
fn apart(reads: &[Straight]) -> bool {
    let mut places: Vec<(usize, u64)> = reads.iter().filter(|r| r.bytes > 0).map(|r| (r.address, r.bytes)).collect();
    places.sort_unstable();
    places.windows(2).all(|two| two[0].0 as u64 + two[0].1 <= two[1].0 as u64)
}

/// Carries out all scheduled reads, together where possible. If one fails the others are carried out nevertheless; the first
/// failure is returned.
///
/// # Safety
/// As [`adios_perform_reads`].
unsafe fn perform(state: &State, all: &[ScheduledRead]) -> Outcome<()> {
    let mut first = Ok(());
    let mut straight: Vec<Straight> = Vec::new();
    for (number, request) in all.iter().enumerate() {
        let Some(memory) = request.memory else {
            let text = "scheduled without memory, which only adios_check_reads can read";
            first = first.and(Err(Failure::argument(format!("{}: {text}", request.info.name))));
            continue;
        };
        let reads = match state.file.resolve_all(request) {
            Ok(reads) => reads,
            Err(failure) => {
                first = first.and(Err(failure));
                continue;
            }
        };
        if !reads.iter().all(|r| matches!(r.delivery, Delivery::Straight)) {
            // SAFETY: as the caller promises.
            first = first.and(unsafe { fetch(state, request, &reads, memory as *mut c_void) });
            continue;
        }
        let mut address = memory;
        for Read { step, selection, length, .. } in reads {
            match straight.last_mut() {
                Some(last)
                    if last.request == number && last.selection == selection && last.steps.last() < Some(&step) =>
                {
                    last.steps.push(step);
                    last.bytes += length;
                }
                _ => straight.push(Straight { request: number, steps: vec![step], selection, address, bytes: length }),
            }
            address = address.wrapping_add(length as usize);
        }
    }
    // SAFETY: as the caller promises; slices of one batch share nothing.
    let memory = |read: &Straight, bytes: u64| unsafe {
        pointer::bytes_mut(read.address as *mut c_void, bytes, &all[read.request].info.name)
    };
    if apart(&straight) {
        let mut batch = state.file.reader().batch();
        let mut out: Vec<&mut [u8]> = Vec::with_capacity(straight.len());
        let mut planned = Vec::with_capacity(straight.len());
        for read in straight {
            match batch.add(&all[read.request].info.name, &read.steps, &read.selection, None) {
                Ok(number) if batch.bytes(number) == read.bytes => {
                    out.push(memory(&read, read.bytes)?);
                    planned.push(read);
                }
                Ok(_) => {
                    return Err(Failure::new(number::UNSPECIFIED, "a read of another length than it was planned for"));
                }
                Err(e) => first = first.and(Err(Doing::Read.failed(e))),
            }
        }
        if batch.perform(&mut out).is_ok() {
            return first;
        }
        straight = planned;
    }
    // One of them fails, or memory is shared: one by one, so that each that can be read is.
    for read in &straight {
        let name = &all[read.request].info.name;
        let done = memory(read, read.bytes).map_err(Failure::from).and_then(|out| {
            let done = state.file.reader().read_steps(name, &read.steps, &read.selection, out);
            done.map(drop).map_err(|e| Doing::Read.failed(e))
        });
        first = first.and(done);
    }
    first
}

/// Carries out the scheduled reads, or prepares them for [`adios_check_reads`].
///
/// # Safety
/// The memory of scheduled reads is still there, large enough for the selections that were given with it.
/// # Cost
/// Blocking: as [`thalweg_reader::Batch::perform`], so that scheduled reads share requests. Texts, parts of blocks, points in blocks,
/// and boxes in local arrays are read one by one, with memory for the fetched block. All reads are done one by one if their
/// memory overlaps or one of them fails. Not blocking: no values are read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_perform_reads(fp: *const AdiosFile, blocking: c_int) -> c_int {
    status(|| {
        with_file(fp, |state| {
            state.chunk = Vec::new();
            if blocking == 0 {
                return state.file.begin_pieces();
            }
            let all = state.file.take_scheduled();
            // SAFETY: as the caller promises.
            let done = unsafe { perform(state, &all) };
            state.file.say_unchecked();
            done
        })
    })
}

/// The next piece of the reads that [`adios_perform_reads`] prepared.
///
/// # Safety
/// See [`super`]; as [`adios_perform_reads`].
/// # Cost
/// The requests of one piece; pieces share none. For a read without memory of the program, memory for the piece: up to
/// `max_chunk_size` (16 MiB), more for a single row, a block or points, which are not divided.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_check_reads(fp: *const AdiosFile, chunk: *mut *mut AdiosVarChunk) -> c_int {
    let mut more = 0;
    let code = status(|| {
        // SAFETY: from C.
        let place = unsafe { pointer::out(chunk, "the place for the chunk's address") }?;
        *place = null_mut();
        with_file(fp, |state| {
            state.chunk = Vec::new();
            let Some(piece) = state.file.next_piece() else { return Ok(()) };
            let request = piece.request;
            let reads = state.file.resolve_all(&request)?;
            let bytes: u64 = reads.iter().map(|r| r.length).sum();
            let data = match request.memory {
                Some(memory) => memory as *mut c_void,
                None => chunk_memory(state, bytes)?,
            };
            // SAFETY: as the caller promises, or memory of this size that was just made.
            unsafe { fetch(state, &request, &reads, data) }?;
            let shown = AdiosVarChunk {
                varid: request.place,
                element: type_number(request.info.element),
                from_steps: request.from,
                nsteps: count(request.steps.len()),
                sel: selection::made_of(&state.file.box_of(&request))?,
                data,
            };
            *place = Owned { shown, arena: Arena::default(), more: () }.hand_out();
            more = 1;
            Ok(())
        })
    });
    if code == 0 { more } else { code }
}

/// Frees a piece and its selection; the data stays until the next piece.
///
/// # Safety
/// No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_free_chunk(chunk: *mut AdiosVarChunk) {
    status(|| {
        if is_out(chunk) {
            // SAFETY: handed out above, with a selection of ours that programs only look at.
            unsafe { selection::delete((*chunk).sel) };
        }
        // SAFETY: as the caller promises.
        unsafe { take_back::<_, ()>(chunk) }
    });
}
