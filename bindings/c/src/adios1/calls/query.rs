//! `adios_query.h`.
//!
//! MINMAX gives blocks from characteristics alone, where NaN and infinities are left out as in the reference. The two
//! others give the points themselves; there they are compared.

use super::memory::{Arena, Handed, Owned, allocated, borrowed, copied, count, take_back};
use super::read::{State, with_file};
use super::structures::{
    AdiosBlock, AdiosFile, AdiosPoints, AdiosSelection, AdiosSelectionParts, AdiosVarInfo, selection_type as kind,
};
use super::{inquire, pointer, selection, status, value};
use crate::adios1::error::{Doing, Failure, Outcome, number};
use crate::adios1::read::info::Info;
use crate::adios1::read::scheduled_read::{Delivery, OwnedSelection, Read, ScheduledRead};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use thalweg_query::{Comparison, NonFinite, Number, Operator, Query, ResultKind, Results, copy_values};
use thalweg_types::{BoundingBox, Error, ErrorKind, Selection};

/// `enum ADIOS_QUERY_METHOD`.
mod method {
    use std::ffi::c_int;
    pub const MINMAX: c_int = 0;
    pub const FASTBIT: c_int = 1;
    pub const ALACRITY: c_int = 2;
    pub const UNKNOWN: c_int = 3;
}

/// `ADIOS_QUERY`.
#[repr(C)]
pub struct AdiosQuery {
    condition: *mut c_char,
    query_internal: *mut c_void,
    sel: *mut AdiosSelection,
    data_slice: *mut c_void,
    varinfo: *mut AdiosVarInfo,
    var_name: *mut c_char,
    file: *mut AdiosFile,
    method: c_int,
    predicate_op: c_int,
    predicate_value: *mut c_char,
    raw_data_size: u64,
    left: *mut c_void,
    right: *mut c_void,
    combine_op: c_int,
    on_time_step: c_int,
    max_results_desired: u64,
    results_read_so_far: u64,
    has_parent: c_int,
    delete_selection_when_freed: c_int,
    estimate: c_int,
}

impl Handed for AdiosQuery {
    const KIND: &'static str = "query";
}

/// `ADIOS_QUERY_RESULT`. From `malloc`.
#[repr(C)]
pub struct AdiosQueryResult {
    method_used: c_int,
    status: c_int,
    nselections: c_int,
    selections: *mut AdiosSelection,
    npoints: u64,
}

/// `ADIOS_AVAILABLE_QUERY_METHODS`.
#[repr(C)]
pub struct AvailableQueryMethods {
    nmethods: c_int,
    name: *mut *mut c_char,
    method_id: *mut c_int,
}

impl Handed for AvailableQueryMethods {
    const KIND: &'static str = "list of query methods";
}

/// A query as a program built it. The query's own selections are those of a timestep, made from `parts`.
#[derive(Clone)]
struct Terms {
    query: Query,
    /// Selections of the comparisons, from left to right.
    parts: Vec<OwnedSelection>,
}

/// Results under way.
struct Running {
    results: Results,
    method: c_int,
    timestep: c_int,
    /// Of a stream, which shows another step under the same timestep later.
    step: Option<u64>,
    /// The container of the points, if the program does not give one.
    container: Option<OwnedSelection>,
}

/// Containers of results, as long as the query: a program may keep results of other timesteps.
#[derive(Default)]
struct Containers(Vec<(OwnedSelection, *mut AdiosSelection)>);

impl Containers {
    fn of(&mut self, part: &OwnedSelection) -> Outcome<*mut AdiosSelection> {
        if let Some((_, made)) = self.0.iter().find(|(known, _)| known == part) {
            return Ok(*made);
        }
        let made = selection::made_of(part)?;
        self.0.push((part.clone(), made));
        Ok(made)
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        for (_, made) in &self.0 {
            // SAFETY: made by us, and documented as going with the query.
            unsafe { selection::delete(*made) };
        }
    }
}

/// State of a query, stored after the structure that the program sees.
struct QueryState {
    terms: Terms,
    running: Option<Running>,
    containers: Containers,
}

fn incompatible(text: impl Into<String>) -> Failure {
    Failure::new(number::INCOMPATIBLE_QUERIES, text)
}

/// Selections that leave their variable, or differ in their extents, are incompatible queries in the reference.
fn failed(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::OutOfBounds | ErrorKind::InvalidArgument => incompatible(error.to_string()),
        _ => Doing::Read.failed(error),
    }
}

/// A comparison's variable and the file's step at a timestep; `None` where the variable has no such step.
fn at_timestep(state: &State, name: &str, timestep: c_int) -> Outcome<Option<(Info, u64)>> {
    if timestep < 0 {
        return Err(Failure::new(number::INVALID_TIMESTEP, format!("timestep {timestep}: they count from 0")));
    }
    if state.file.is_stream() && timestep != 0 {
        let text = format!("timestep {timestep} of a stream: only its current step can be queried, as timestep 0");
        return Err(Failure::new(number::INVALID_QUERY_VALUE, text));
    }
    let place = state.file.find_variable(name)?;
    let info = state.file.info(count(place))?;
    let step = info.file_steps(timestep, 1).ok().and_then(|steps| steps.first().copied());
    Ok(step.map(|step| (info, step)))
}

/// A selection of C as one of the file, and its step.
fn selection_at(state: &State, info: &Info, step: u64, part: &OwnedSelection) -> Outcome<(Selection, u64)> {
    let unsupported = |what: &str| Failure::new(number::UNSUPPORTED_SELECTION, format!("{}: {what}", info.name));
    match part {
        OwnedSelection::All => Ok((Selection::All, step)),
        OwnedSelection::Auto => Err(unsupported("queries have no automatic selections")),
        OwnedSelection::Block { range: Some(_), .. } => Err(unsupported("queries take blocks as a whole")),
        _ => {
            let request = ScheduledRead {
                place: 0,
                info: info.clone(),
                from: 0,
                steps: vec![step],
                part: part.clone(),
                memory: None,
            };
            match state.file.resolve_all(&request)?.pop() {
                Some(Read { step, selection, delivery: Delivery::Straight, .. }) => Ok((selection, step)),
                _ => Err(unsupported("of this variable, queries take whole blocks, by their number")),
            }
        }
    }
}

/// The query at a timestep; `None` where a variable has no such step.
fn query_at(state: &State, terms: &Terms, timestep: c_int) -> Outcome<Option<Query>> {
    let mut parts = terms.parts.iter();
    terms.query.try_map(&mut |comparison| {
        let part = parts.next().unwrap_or(&OwnedSelection::All);
        let Some((info, step)) = at_timestep(state, &comparison.variable, timestep)? else { return Ok(None) };
        let (selection, step) = selection_at(state, &info, step, part)?;
        let query = Query::compare(info.name, comparison.operator, comparison.number);
        Ok(Some(query.within(&selection).at_step(step)))
    })
}

/// The evaluation method: as the program chose, or as the selections allow.
fn method_of(chosen: c_int, parts: &[OwnedSelection]) -> Outcome<c_int> {
    match chosen {
        method::MINMAX | method::FASTBIT | method::ALACRITY => Ok(chosen),
        method::UNKNOWN => {
            let boxes = parts.iter().all(|part| matches!(part, OwnedSelection::All | OwnedSelection::Box(_)));
            let same_block =
                matches!(parts[0], OwnedSelection::Block { .. }) && parts.iter().all(|part| *part == parts[0]);
            Ok(if boxes || same_block { method::MINMAX } else { method::FASTBIT })
        }
        other => Err(Failure::argument(format!("{other} is no query method"))),
    }
}

fn kind_of(method: c_int) -> ResultKind {
    if method == method::MINMAX { ResultKind::Blocks } else { ResultKind::Places }
}

/// Begins to evaluate; `None` where a variable has no such step.
fn begin(state: &State, terms: &Terms, method: c_int, timestep: c_int) -> Outcome<Option<Running>> {
    let Some(query) = query_at(state, terms, timestep)? else { return Ok(None) };
    // Not of rounded numbers: in blocks that the statistics decide, others would count.
    let exact = state.file.reader().clone().with_digits(thalweg_reader::Digits::ALL);
    let results = query.results(&exact, 0, kind_of(method)).map_err(failed)?;
    let container = results.container().and_then(|container| match container {
        Selection::Box(b) => Some(OwnedSelection::Box(b.clone())),
        Selection::Block(index) => Some(OwnedSelection::Block { index: *index, absolute: false, range: None }),
        _ => None,
    });
    Ok(Some(Running { results, method, timestep, step: state.file.current_step(), container }))
}

fn block_of(index: u64) -> Outcome<AdiosSelection> {
    let index = c_int::try_from(index).map_err(|_| {
        Failure::new(number::OPERATION_NOT_SUPPORTED, format!("block {index}: more than an int counts"))
    })?;
    let block = AdiosBlock { index, is_absolute_index: 0, is_sub_pg_selection: 0, element_offset: 0, nelements: 0 };
    Ok(AdiosSelection { kind: kind::BLOCK, u: AdiosSelectionParts { block } })
}

/// Whether results can be expressed in the program's selection.
///
/// # Safety
/// As [`selection::part`].
unsafe fn check_boundary(
    state: &State,
    terms: &Terms,
    timestep: c_int,
    boundary: *const AdiosSelection,
) -> Outcome<()> {
    if boundary.is_null() {
        return Ok(());
    }
    // SAFETY: as the caller promises.
    let boundary = unsafe { selection::part(boundary) }?;
    let first = terms.query.comparisons()[0];
    let Some((info, step)) = at_timestep(state, &first.variable, timestep)? else { return Ok(()) };
    let within = |part: &OwnedSelection| {
        let (selection, step) = selection_at(state, &info, step, part)?;
        Ok::<_, Failure>(Comparison { variable: info.name.clone(), selection, step: Some(step), ..first.clone() })
    };
    let (own, boundary) = (within(&terms.parts[0])?, within(&boundary)?);
    own.check_extents(&boundary, state.file.reader(), step).map_err(failed)
}

/// Whether a method can be chosen.
#[unsafe(no_mangle)]
pub extern "C" fn adios_query_is_method_available(method: c_int) -> c_int {
    c_int::from((method::MINMAX..method::UNKNOWN).contains(&method))
}

fn operator(op: c_int) -> Outcome<(Operator, &'static str)> {
    Ok(match op {
        0 => (Operator::Less, "<"),
        1 => (Operator::LessOrEqual, "<="),
        2 => (Operator::Greater, ">"),
        3 => (Operator::GreaterOrEqual, ">="),
        4 => (Operator::Equal, "="),
        5 => (Operator::NotEqual, "!="),
        other => return Err(Failure::argument(format!("{other} is no comparison"))),
    })
}

/// A comparison.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_query_create(
    f: *mut AdiosFile,
    query_boundary: *mut AdiosSelection,
    var_name: *const c_char,
    query_op: c_int,
    query_value: *const c_char,
) -> *mut AdiosQuery {
    value(null_mut(), || {
        let wrong_value = |text: String| Failure::new(number::INVALID_QUERY_VALUE, text);
        // SAFETY: from C.
        let (name, text, part) = unsafe {
            let text = pointer::text(query_value, "the query's value").map_err(|f| wrong_value(f.text))?;
            (inquire::variable_name(var_name)?, text, selection::part(query_boundary)?)
        };
        let (operator, sign) = operator(query_op)?;
        let number = Number::parse(text.trim())
            .ok_or_else(|| wrong_value(format!("a query of {name}: \"{text}\" is no number")))?;
        if part == OwnedSelection::Auto {
            let text = "queries are over boxes, points and blocks, not automatic selections";
            return Err(Failure::new(number::UNSUPPORTED_SELECTION, text));
        }
        let shown_here = with_file(f, |state| {
            let heads = state.file.reader().variables();
            let bare = |n: &str| n.strip_prefix('/').unwrap_or(n).to_string();
            // A stream may show it at a later step.
            let later = || state.file.is_stream() && heads.iter().any(|h| bare(&h.name) == bare(name));
            let found = state.file.find_variable(name);
            let text =
                found.as_ref().is_ok_and(|place| state.file.info(count(*place)).is_ok_and(|i| i.element.is_text()));
            match found {
                Ok(_) if text => Err(wrong_value(format!("{name} is text, which can't be compared with a number"))),
                Ok(_) => Ok(true),
                Err(_) if later() => Ok(false),
                Err(e) => Err(e),
            }
        })?;
        let varinfo = if shown_here {
            // SAFETY: from C.
            unsafe { inquire::adios_inq_var(f, var_name) }
        } else {
            null_mut()
        };
        let mut arena = Arena::default();
        let shown = AdiosQuery {
            condition: arena.text(format!("({name} {sign} {text})")),
            query_internal: null_mut(),
            sel: query_boundary,
            data_slice: null_mut(),
            varinfo,
            var_name: arena.text(name),
            file: f,
            method: method::UNKNOWN,
            predicate_op: query_op,
            predicate_value: arena.text(text),
            raw_data_size: 0,
            left: null_mut(),
            right: null_mut(),
            combine_op: 0,
            on_time_step: -1,
            max_results_desired: 0,
            results_read_so_far: 0,
            has_parent: 0,
            delete_selection_when_freed: 0,
            estimate: 0,
        };
        let terms = Terms { query: Query::compare(name, operator, number), parts: vec![part] };
        Ok(Owned { shown, arena, more: QueryState { terms, running: None, containers: Containers::default() } }
            .hand_out())
    })
}

/// Both of two queries, or one of them.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_query_combine(
    q1: *mut AdiosQuery,
    combine_op: c_int,
    q2: *mut AdiosQuery,
) -> *mut AdiosQuery {
    value(null_mut(), || {
        if q1.is_null() || q2.is_null() {
            return Err(incompatible("cannot combine two queries: one is a null pointer"));
        }
        // Read one after the other: they may be the same.
        let parent = |q: *mut AdiosQuery| -> Outcome<_> {
            // SAFETY: from C; all are handed out with a `QueryState`.
            let query = unsafe { borrowed::<_, QueryState>(q) }?;
            query.shown.has_parent = 1;
            // SAFETY: a text of ours, as long as the query.
            let condition = unsafe { pointer::text(query.shown.condition, "a condition") }?;
            Ok((query.more.terms.clone(), query.shown.file, condition.to_string()))
        };
        let ((a, file, left), (b, other, right)) = (parent(q1)?, parent(q2)?);
        if file != other {
            return Err(incompatible("queries of two files can't be combined"));
        }
        let parts = [a.parts, b.parts].concat();
        let (query, word) = match combine_op {
            0 => (a.query.and(b.query), "and"),
            1 => (a.query.or(b.query), "or"),
            other => return Err(Failure::argument(format!("{other} is no way to combine queries"))),
        };
        let mut arena = Arena::default();
        let shown = AdiosQuery {
            condition: arena.text(format!("({left} {word} {right})")),
            query_internal: null_mut(),
            sel: null_mut(),
            data_slice: null_mut(),
            varinfo: null_mut(),
            var_name: null_mut(),
            file,
            method: method::UNKNOWN,
            predicate_op: 0,
            predicate_value: null_mut(),
            raw_data_size: 0,
            left: q1.cast(),
            right: q2.cast(),
            combine_op,
            on_time_step: -1,
            max_results_desired: 0,
            results_read_so_far: 0,
            has_parent: 0,
            delete_selection_when_freed: 0,
            estimate: 0,
        };
        let terms = Terms { query, parts };
        Ok(Owned { shown, arena, more: QueryState { terms, running: None, containers: Containers::default() } }
            .hand_out())
    })
}

/// Chooses the evaluation method.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_query_set_method(q: *mut AdiosQuery, method: c_int) {
    status(|| {
        // SAFETY: from C; all are handed out with a `QueryState`.
        let query = unsafe { borrowed::<_, QueryState>(q) }?;
        method_of(method, &query.more.terms.parts)?;
        query.shown.method = method;
        Ok(())
    });
}

/// How much matches, from characteristics.
///
/// # Safety
/// See [`super`].
/// # Cost
/// Characteristics of the blocks of the step; no values are read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_query_estimate(q: *mut AdiosQuery, timestep: c_int) -> i64 {
    value(-1, || {
        // SAFETY: from C; all are handed out with a `QueryState`.
        let query = unsafe { borrowed::<_, QueryState>(q) }?;
        let method = method_of(query.shown.method, &query.more.terms.parts)?;
        // The next evaluation starts from the beginning.
        query.more.running = None;
        let found = with_file(query.shown.file, |state| {
            let Some(query) = query_at(state, &query.more.terms, timestep)? else { return Ok(0) };
            let (reader, step) = (state.file.reader(), query.comparisons()[0].step.unwrap_or(0));
            if method == method::MINMAX {
                return query.blocks(reader, step, NonFinite::Left).map(|b| b.len() as u64).map_err(failed);
            }
            query.estimate(reader, step).map(|e| e.likely).map_err(failed)
        })?;
        Ok(i64::try_from(found).unwrap_or(i64::MAX))
    })
}

/// The next results.
///
/// # Safety
/// See [`super`].
/// # Cost
/// The first call for a timestep decodes the characteristics of its blocks. `ADIOS_QUERY_METHOD_MINMAX` reads no values; the
/// others read values until it is known whether more than `batch_size` places match ([`thalweg_query::Evaluation::next_batch`]).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_query_evaluate(
    q: *mut AdiosQuery,
    output_boundary: *mut AdiosSelection,
    timestep: c_int,
    batch_size: u64,
) -> *mut AdiosQueryResult {
    let nothing = AdiosQueryResult {
        method_used: method::UNKNOWN,
        status: -1,
        nselections: 0,
        selections: null_mut(),
        npoints: 0,
    };
    let bytes = size_of::<AdiosQueryResult>();
    let result: *mut AdiosQueryResult = value(null_mut(), || Ok(allocated(bytes)?.cast()));
    if result.is_null() {
        return result;
    }
    // SAFETY: just taken, large enough.
    unsafe { result.write(nothing) };
    status(|| {
        // SAFETY: from C; all are handed out with a `QueryState`.
        let query = unsafe { borrowed::<_, QueryState>(q) }?;
        let method = method_of(query.shown.method, &query.more.terms.parts)?;
        let (shown, behind) = (&mut query.shown, &mut query.more);
        let there = with_file(shown.file, |state| {
            // SAFETY: from C.
            unsafe { check_boundary(state, &behind.terms, timestep, output_boundary) }?;
            let step = state.file.current_step();
            let goes_on = |r: &Running| (r.method, r.timestep, r.step) == (method, timestep, step);
            if !behind.running.as_ref().is_some_and(goes_on) {
                behind.running = None;
                shown.results_read_so_far = 0;
                let begun = begin(state, &behind.terms, method, timestep)?;
                shown.max_results_desired = 0;
                shown.raw_data_size = begun.as_ref().map_or(0, |running| running.results.elements());
                behind.running = begun;
            }
            Ok(behind.running.is_some())
        })?;
        shown.method = method;
        shown.on_time_step = timestep;
        let (mut points, mut selections, mut more) = (0, Vec::new(), false);
        if let (true, Some(running)) = (there, &mut behind.running) {
            let page = running.results.next_page(batch_size).map_err(failed)?;
            for block in &page.blocks {
                selections.push(block_of(*block)?);
            }
            (points, more) = (page.places.len() as u64, page.more);
            shown.results_read_so_far = running.results.found();
            shown.max_results_desired = running.results.total().unwrap_or(shown.max_results_desired);
            if points > 0 {
                let within = match &running.container {
                    _ if !output_boundary.is_null() => output_boundary,
                    Some(part) => behind.containers.of(part)?,
                    None => null_mut(),
                };
                selections.push(points_of(&running.results, &behind.terms.parts, &page.places, within)?);
            }
        }
        let all = if selections.is_empty() { null_mut() } else { copied(&selections)? };
        let found = AdiosQueryResult {
            method_used: method,
            status: c_int::from(more),
            nselections: count(selections.len()),
            selections: all,
            npoints: points,
        };
        // SAFETY: ours, not handed out yet.
        unsafe { result.write(found) };
        Ok(())
    });
    result
}

/// Places of a query's results as a selection of points.
fn points_of(
    results: &Results,
    parts: &[OwnedSelection],
    places: &[u64],
    within: *mut AdiosSelection,
) -> Outcome<AdiosSelection> {
    let (ndim, coordinates) = results.coordinates(places);
    let points = AdiosPoints {
        ndim: count(ndim),
        free_points_on_delete: 1,
        npoints: places.len() as u64,
        points: copied(&coordinates)?,
        container_selection: if matches!(parts[0], OwnedSelection::Points { .. }) { null_mut() } else { within },
    };
    Ok(AdiosSelection { kind: kind::POINTS, u: AdiosSelectionParts { points } })
}

/// Values of a variable at results, into a box.
///
/// # Safety
/// See [`super`]; `data` holds the box `bb` of the variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_query_read_boundingbox(
    f: *mut AdiosFile,
    _q: *mut AdiosQuery,
    varname: *const c_char,
    timestep: c_int,
    nselections: c_uint,
    selections: *mut AdiosSelection,
    bb: *mut AdiosSelection,
    data: *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (name, to) = unsafe { (inquire::variable_name(varname)?, selection::part(bb)?) };
        let OwnedSelection::Box(to) = to else {
            return Err(Failure::new(number::INVALID_SELECTION, "values need a box selection"));
        };
        let mut parts = Vec::new();
        for i in 0..nselections as usize {
            if selections.is_null() {
                return Err(Failure::new(number::INVALID_SELECTION, "a null pointer for the selections"));
            }
            // SAFETY: from C, so many selections.
            let part = unsafe { selection::part(selections.add(i)) }?;
            // Results of ADIOS 1.13 call themselves counted over all steps; they are not.
            parts.push(match part {
                OwnedSelection::Block { index, range, .. } => OwnedSelection::Block { index, absolute: false, range },
                other => other,
            });
        }
        with_file(f, |state| {
            let none = || Failure::new(number::INVALID_TIMESTEP, format!("{name} has no timestep {timestep}"));
            let (info, step) = at_timestep(state, name, timestep)?.ok_or_else(none)?;
            let size = info.element.size();
            let bytes = to.elements().and_then(|n| n.checked_mul(size)).filter(|_| size > 0);
            let bytes = bytes.ok_or_else(|| incompatible(format!("{name}: no memory holds such a box")))?;
            // SAFETY: as the caller promises.
            let data = unsafe { pointer::bytes_mut(data, bytes, "the place for values") }?;
            parts.iter().try_for_each(|part| copy_part(state, &info, step, part, &to, data))
        })
    })
}

fn copy_part(
    state: &State,
    info: &Info,
    step: u64,
    part: &OwnedSelection,
    to: &BoundingBox,
    data: &mut [u8],
) -> Outcome<()> {
    let (selection, step) = selection_at(state, info, step, part)?;
    let copied = copy_values(state.file.reader(), &info.name, step, selection, to, data);
    state.file.say_unchecked();
    copied.map_err(|e| match e.kind() {
        ErrorKind::InvalidArgument => Failure::new(number::INVALID_SELECTION, e.to_string()),
        _ => failed(e),
    })
}

/// Frees a query; those it was combined from stay. Null is nothing.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_query_free(q: *mut AdiosQuery) {
    status(|| {
        if q.is_null() {
            return Ok(());
        }
        // SAFETY: from C; all are handed out with a `QueryState`, and variables' structures with an `Info`.
        unsafe {
            let varinfo = borrowed::<_, QueryState>(q)?.shown.varinfo;
            take_back::<_, Info>(varinfo)?;
            take_back::<_, QueryState>(q)
        }
    });
}

/// A comparison by its sign or name.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_query_getOp(op: *const c_char) -> c_int {
    value(5, || {
        // SAFETY: from C.
        let text = unsafe { pointer::text(op, "the comparison") }?;
        Ok(match text.trim() {
            "<" | "LT" => 0,
            "<=" | "LE" | "LTEQ" => 1,
            ">" | "GT" => 2,
            ">=" | "GE" | "GTEQ" => 3,
            "=" | "==" | "EQ" => 4,
            _ => 5,
        })
    })
}

/// The methods that can be chosen.
#[unsafe(no_mangle)]
pub extern "C" fn adios_available_query_methods() -> *mut AvailableQueryMethods {
    value(null_mut(), || {
        let mut arena = Arena::default();
        let names = ["ADIOS_QUERY_METHOD_MINMAX", "ADIOS_QUERY_METHOD_FASTBIT", "ADIOS_QUERY_METHOD_ALACRITY"];
        let name = arena.texts(names.into_iter());
        let method_id = arena.array(vec![method::MINMAX, method::FASTBIT, method::ALACRITY]);
        let shown = AvailableQueryMethods { nmethods: count(names.len()), name, method_id };
        Ok(Owned { shown, arena, more: () }.hand_out())
    })
}

/// Frees the result of [`adios_available_query_methods`]; null has no effect.
///
/// # Safety
/// No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_available_query_methods_free(methods: *mut AvailableQueryMethods) {
    // SAFETY: as the caller promises.
    status(|| unsafe { take_back::<_, ()>(methods) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_structures_are_those_of_the_reference() {
        // As Debian's libadios 1.13 lays them out on 64 bits.
        assert_eq!((size_of::<AdiosQuery>(), size_of::<AdiosQueryResult>()), (136, 32));
        assert_eq!(offset_of!(AdiosQuery, file), 48);
        assert_eq!(offset_of!(AdiosQuery, raw_data_size), 72);
        assert_eq!(offset_of!(AdiosQuery, on_time_step), 100);
        assert_eq!(offset_of!(AdiosQuery, estimate), 128);
    }

    #[test]
    fn comparisons_have_signs_and_names() {
        for (text, op) in [(c"<", 0), (c"LE", 1), (c">", 2), (c"GTEQ", 3), (c"==", 4), (c"<>", 5), (c"what", 5)] {
            // SAFETY: a text.
            assert_eq!(unsafe { adios_query_getOp(text.as_ptr()) }, op);
        }
    }
}
