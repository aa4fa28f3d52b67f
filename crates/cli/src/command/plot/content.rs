//! What is drawn of a file: lines over steps or indices, or one plane.
//!
//! | left of a slice | drawn |
//! |---|---|
//! | a scalar | a line over its steps |
//! | a name of an array with several steps, without a slice | minimum, mean and maximum over the steps, from characteristics |
//! | one element | a line over its steps |
//! | one step, one dimension | a line over the indices |
//! | one step and two dimensions, or steps and one dimension | a plane, the slower one downwards |
//!
//! Dimensions in which one element is left do not count.

use crate::command::dump::part::{self, NamedSlice, ResolvedSlice, StepBox};
use crate::command::dump::read;
use crate::command::ls;
use crate::file;
use crate::outcome::Failure;
use crate::terminal::{complain, plain};
use std::collections::HashMap;
use thalweg_query::Number;
use thalweg_reader::{Reader, Variable};
use thalweg_report::plot::{Content, Line, Plane};
use thalweg_report::text::count;
use thalweg_types::{AttributeValue, Value};

/// Elements that are read for one picture.
const MOST: u64 = 1 << 24;

/// A statistic of a variable in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Statistic {
    Min,
    Max,
    Mean,
    Std,
    Sum,
}

impl Statistic {
    const ALL: [(&'static str, Statistic); 5] = [
        ("min", Statistic::Min),
        ("max", Statistic::Max),
        ("mean", Statistic::Mean),
        ("std", Statistic::Std),
        ("sum", Statistic::Sum),
    ];

    fn name(self) -> &'static str {
        Statistic::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }

    /// Of [`ls::numbers`].
    fn of(self, numbers: &[Option<f64>; 5]) -> f64 {
        let [min, max, mean, std, sum] = *numbers;
        let one = match self {
            Statistic::Min => min,
            Statistic::Max => max,
            Statistic::Mean => mean,
            Statistic::Std => std,
            Statistic::Sum => sum,
        };
        one.unwrap_or(f64::NAN)
    }
}

/// One argument.
pub struct Wanted {
    text: String,
    /// `max(v)`: the statistic and `v`.
    statistic: Option<(Statistic, String)>,
    slice: Option<NamedSlice>,
}

/// Reads all arguments.
///
/// # Errors
/// `Usage` for one that is no slice.
pub fn parse_all(texts: &[String]) -> Result<Vec<Wanted>, Failure> {
    texts
        .iter()
        .map(|text| {
            let inside = text.strip_suffix(')').and_then(|inside| inside.split_once('('));
            let known = |name: &str| Statistic::ALL.iter().find(|(one, _)| *one == name.trim()).map(|(_, one)| *one);
            let statistic = inside.and_then(|(name, of)| Some((known(name)?, of.trim().to_string())));
            let slice = if statistic.is_some() { None } else { Some(part::parse(text)?) };
            Ok(Wanted { text: text.clone(), statistic, slice })
        })
        .collect()
}

/// What is drawn, and its names.
pub struct Drawn {
    pub content: Content,
    pub names: Vec<String>,
    pub x_name: String,
    pub y_name: String,
}

/// The axis of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Steps,
    Indices,
}

/// What one argument gives.
enum Piece {
    Lines(Over, Vec<Line>),
    Plane { plane: Plane, x_name: String, y_name: String },
}

/// Finds what is drawn.
///
/// - `over`: a scalar whose values are the axis of steps.
///
/// # Errors
/// `Absent` for a missing variable, step or index, and for what is no number; `Usage` for pieces that are no one picture.
pub fn find(reader: &Reader, wanted: &[Wanted], over: Option<&str>) -> Result<Drawn, Failure> {
    let (mut lines, mut axis, mut names, mut units) = (Vec::new(), None, Vec::new(), Vec::new());
    for one in wanted {
        let (variable, piece) = piece(reader, one)?;
        names.push(one.text.clone());
        units.push(unit(reader, &variable));
        match piece {
            Piece::Plane { plane, x_name, y_name } => {
                if wanted.len() > 1 || over.is_some() {
                    let what = format!("'{}' is a plane, which is drawn alone, over its indices", plain(&one.text));
                    return Err(Failure::Usage(what));
                }
                return Ok(Drawn { content: Content::Plane(plane), names, x_name, y_name });
            }
            Piece::Lines(of, more) => {
                if axis.is_some_and(|axis| axis != of) {
                    let what = "a line over steps and a line over indices have no axis in common: draw them one by one";
                    return Err(Failure::Usage(what.into()));
                }
                axis = Some(of);
                lines.extend(more);
            }
        }
    }
    let x_name = match (over, axis) {
        (Some(name), Some(Over::Steps)) => replace_axis(reader, name, &mut lines)?,
        (Some(_), _) => return Err(Failure::Usage("--over is for lines over steps".into())),
        (None, Some(Over::Indices)) => "index".to_string(),
        (None, _) => "step".to_string(),
    };
    units.dedup();
    let y_name = if units.len() == 1 { units.pop().flatten().unwrap_or_default() } else { String::new() };
    Ok(Drawn { content: Content::Lines(lines), names, x_name, y_name })
}

/// Puts the values of a scalar in place of steps; its name.
fn replace_axis(reader: &Reader, name: &str, lines: &mut [Line]) -> Result<String, Failure> {
    let part = ResolvedSlice::find(reader, &part::parse(name)?, false)?;
    if !part.is_scalar() || part.variable.element.is_text() {
        return Err(Failure::Absent(format!("'{}' is no scalar number; --over needs one", plain(name))));
    }
    let at: HashMap<u64, f64> =
        read::scalars(reader, &part)?.iter().map(|(step, value)| (*step, number(value))).collect();
    for [x, _] in lines.iter_mut().flat_map(|line| &mut line.points) {
        *x = at.get(&(*x as u64)).copied().unwrap_or(f64::NAN);
    }
    Ok(part.variable.name)
}

fn piece(reader: &Reader, wanted: &Wanted) -> Result<(String, Piece), Failure> {
    let heads = reader.variables();
    if let Some((statistic, name)) = &wanted.statistic
        && !heads.iter().any(|head| head.name == wanted.text)
    {
        let name = file::known(heads, name).ok_or_else(|| file::absent("variable", heads, name))?;
        let variable = reader.variable(name)?;
        let lines = statistics(reader, &variable, &[*statistic])?;
        return Ok((name.to_string(), Piece::Lines(Over::Steps, lines)));
    }
    let parsed;
    let slice = match &wanted.slice {
        Some(slice) => slice,
        // A variable of the name of a statistic.
        None => {
            parsed = part::parse(&wanted.text)?;
            &parsed
        }
    };
    let part = ResolvedSlice::find(reader, slice, false)?;
    let name = part.variable.name.clone();
    if part.variable.element.is_text() {
        return Err(Failure::Absent(format!("'{}' is text, no number", plain(&name))));
    }
    let label = plain(&wanted.text);
    let piece = match part.is_scalar() {
        true => {
            let points = read::scalars(reader, &part)?.iter().map(|(step, v)| [*step as f64, number(v)]).collect();
            Piece::Lines(Over::Steps, vec![Line { name: label, points }])
        }
        false if slice.is_name() && part.steps.len() > 1 => {
            let three = [Statistic::Min, Statistic::Mean, Statistic::Max];
            Piece::Lines(Over::Steps, statistics(reader, &part.variable, &three)?)
        }
        false => array(reader, &part, label)?,
    };
    Ok((name, piece))
}

/// Statistics over the steps, from characteristics.
fn statistics(reader: &Reader, variable: &Variable, which: &[Statistic]) -> Result<Vec<Line>, Failure> {
    let name = plain(&variable.name);
    if variable.element.is_text() {
        return Err(Failure::Absent(format!("'{name}' is text, no number")));
    }
    let mut lines: Vec<Line> =
        which.iter().map(|one| Line { name: format!("{}({name})", one.name()), points: Vec::new() }).collect();
    for step in &variable.steps {
        let numbers = ls::numbers(&reader.summary(&variable.name, *step..step + 1)?);
        for (line, statistic) in lines.iter_mut().zip(which) {
            line.points.push([*step as f64, statistic.of(&numbers)]);
        }
    }
    // Other libraries record less.
    let is_recorded = |line: &Line| line.points.iter().any(|[_, y]| !y.is_nan());
    if lines.iter().any(is_recorded) {
        for line in lines.extract_if(.., |line| !is_recorded(line)) {
            complain("thalweg", &format!("{} is not recorded in the file", line.name));
        }
    }
    Ok(lines)
}

fn array(reader: &Reader, part: &ResolvedSlice, label: String) -> Result<Piece, Failure> {
    let name = plain(&part.variable.name);
    let mut pieces = Vec::new();
    for step in &part.steps {
        let mut of_step = part.pieces(reader, *step)?;
        match (of_step.pop(), of_step.is_empty()) {
            (Some(piece), true) => pieces.push(piece),
            (None, _) => {}
            (Some(_), false) => {
                let blocks = count(of_step.len() as u64 + 1, "block");
                let what = format!("'{name}' has {blocks} in step {step}: choose one, '{name}[step, block]'");
                return Err(Failure::Absent(what));
            }
        }
    }
    let Some(first) = pieces.first() else { return Err(Failure::Absent(format!("'{name}': no block is chosen"))) };
    let kept: Vec<usize> = (0..first.area.count.len()).filter(|d| first.area.count[*d] != 1).collect();
    if let Some(other) = pieces.iter().find(|piece| piece.area != first.area) {
        let (a, b) = (first.step, other.step);
        return Err(Failure::Absent(format!("'{name}' differs in shape between steps {a} and {b}: draw one of them")));
    }
    let elements = first.area.elements().and_then(|n| n.checked_mul(pieces.len() as u64)).unwrap_or(u64::MAX);
    if elements == 0 {
        return Err(Failure::Absent(format!("nothing to draw: '{label}' has no elements")));
    }
    let has_steps = pieces.len() > 1;
    if usize::from(has_steps) + kept.len() > 2 {
        let what = match has_steps {
            true => format!("steps and {}", count(kept.len() as u64, "dimension")),
            false => count(kept.len() as u64, "dimension"),
        };
        let hint = if has_steps { "a step, '[-1, ...]', or " } else { "" };
        return Err(Failure::Absent(format!("'{label}' has {what}; two can be drawn: choose {hint}an index")));
    }
    if elements > MOST {
        let what =
            format!("'{label}' has {elements} elements; {MOST} can be drawn: choose a part, or every n-th, '::4'");
        return Err(Failure::Absent(what));
    }
    let mut values = Vec::with_capacity(elements as usize);
    for piece in &pieces {
        read::for_each_stretch(reader, part, piece, &mut |_, bytes| {
            values.extend(read::values(part.variable.element, bytes).map(|v| number(&v)));
            Ok(())
        })?;
    }
    let steps: Vec<f64> = pieces.iter().map(|piece| piece.step as f64).collect();
    let line = |at: Vec<f64>, values: Vec<f64>| {
        let points = at.into_iter().zip(values).map(|(x, y)| [x, y]).collect();
        vec![Line { name: label.clone(), points }]
    };
    Ok(match kept[..] {
        [] => Piece::Lines(Over::Steps, line(steps, values)),
        [d] if !has_steps => Piece::Lines(Over::Indices, line(indices(first, d), values)),
        [d] => Piece::Plane {
            plane: Plane { values, rows: steps, columns: indices(first, d) },
            x_name: format!("index {d}"),
            y_name: "step".into(),
        },
        [d, e, ..] => Piece::Plane {
            plane: Plane { values, rows: indices(first, d), columns: indices(first, e) },
            x_name: format!("index {e}"),
            y_name: format!("index {d}"),
        },
    })
}

/// The indices of a dimension.
fn indices(piece: &StepBox, d: usize) -> Vec<f64> {
    let area = &piece.area;
    (0..area.count[d]).map(|i| (area.start[d] + i * area.stride[d]) as f64).collect()
}

/// A value as a double; the magnitude of a complex one; NaN for text.
pub fn number(value: &Value) -> f64 {
    match value {
        Value::Complex([re, im]) => f64::from(*re).hypot(f64::from(*im)),
        Value::DoubleComplex([re, im]) => re.hypot(*im),
        other => Number::of(other).map_or(f64::NAN, Number::as_f64),
    }
}

/// The unit of a variable, if it has an attribute for it.
fn unit(reader: &Reader, variable: &str) -> Option<String> {
    let heads = reader.attributes();
    let name = ["units", "unit"].iter().find_map(|end| file::known(heads, &format!("{variable}/{end}")))?;
    match reader.attribute(name).ok()?.value {
        AttributeValue::One(Value::String(text)) => Some(String::from_utf8_lossy(&text).into_owned()),
        _ => None,
    }
}
