//! What the columns of a table are, and their values for some steps.

use std::collections::{BTreeMap, BTreeSet};
use thalweg_choice::Choice;
use thalweg_convert::LeftOut;
use thalweg_copy::fetch::{Wanted, fetch};
use thalweg_reader::Reader;
use thalweg_report::csv::parts;
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Result, Value};
use thalweg_views::arrays::{Array, Content};
use thalweg_views::chosen::Read;
use thalweg_views::hdf5::Kind;

/// A column, or two of complex numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Full name of the variable.
    pub name: String,
    /// Type of its values.
    pub element: ElementType,
    /// The steps in which it was written; `None`: it has no axis of steps, and its values hold for all.
    steps: Option<Vec<u64>>,
    /// Whether it has a value for each row of a step, and not one for all of them.
    is_long: bool,
    source: Source,
}

#[derive(Debug, Clone, PartialEq)]
enum Source {
    Values(Vec<Value>),
    Read { variable: String, element: ElementType, parts: Vec<Read> },
}

/// The columns of a table.
pub struct Columns<'r> {
    reader: &'r Reader,
    columns: Vec<Column>,
    /// The steps of its rows; empty if no variable has any.
    steps: Vec<u64>,
    /// Rows of a step.
    rows: u64,
    /// Name of the axis that the rows of a step are along; `None`: there is one row.
    axis: Option<String>,
    /// Name of the column with the numbers of steps.
    step: String,
}

/// Values of a column for some rows.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Numbers in this machine's byte order, or characters.
    Numbers(Vec<u8>),
    /// Texts.
    Texts(Vec<String>),
}

/// Rows of a table: all of some steps.
pub struct Rows<'r> {
    /// The table.
    pub columns: &'r [Column],
    /// The steps; empty if the table has none.
    pub steps: &'r [u64],
    /// Rows of each.
    pub of_step: u64,
    /// For each column its values in all rows, and for each step whether there are any.
    pub cells: Vec<(Cells, Vec<bool>)>,
}

impl Column {
    /// Whether cells of it may be empty.
    pub fn may_be_empty(&self, table: &Columns<'_>) -> bool {
        self.steps.as_ref().is_some_and(|own| own.len() != table.steps.len())
    }

    /// Its name; of complex numbers two.
    pub fn names(&self) -> Vec<String> {
        if self.element.is_complex() { parts(&self.name).to_vec() } else { vec![self.name.clone()] }
    }

    /// Bytes of a value; 0 for texts.
    pub fn size(&self) -> usize {
        if self.element.is_text() { 0 } else { self.element.size() as usize }
    }
}

impl Rows<'_> {
    /// Their number.
    pub fn len(&self) -> u64 {
        self.of_step * self.steps.len().max(1) as u64
    }

    /// Bytes of all numbers.
    pub fn bytes(&self) -> u64 {
        let of = |cells: &(Cells, Vec<bool>)| match &cells.0 {
            Cells::Numbers(bytes) => bytes.len() as u64,
            Cells::Texts(_) => 0,
        };
        self.cells.iter().map(of).sum()
    }

    /// Whether a column has a value in a row.
    pub fn has(&self, column: usize, row: u64) -> bool {
        self.cells[column].1[(row / self.of_step) as usize]
    }
}

impl<'r> Columns<'r> {
    /// The columns that are made of arrays.
    ///
    /// - `choice`: what was chosen of the file.
    /// - `left_out`: gets the others, with the reason.
    pub fn of(
        reader: &'r Reader,
        arrays: &[Array],
        choice: &Choice,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<Columns<'r>> {
        let by_name = !choice.variables.is_empty();
        let variables: BTreeMap<&str, &str> =
            reader.variables().iter().map(|head| (head.name.trim_matches('/'), head.name.as_str())).collect();
        // Numbers of steps are no variables: tables have them.
        let own = arrays.iter().filter(|array| variables.contains_key(array.variable.as_str()));
        let in_step = |array: &Array| {
            let extents = array.shape[usize::from(array.has_steps)..].iter().copied();
            extents.filter(|n| *n != 1).collect::<Vec<_>>()
        };
        let mut fit = Vec::new();
        for array in own {
            let steps = match variables.get(array.variable.as_str()).filter(|_| array.has_steps) {
                Some(name) => {
                    let all = reader.variable(name)?.steps;
                    Some(all.into_iter().filter(|step| choice.steps.contain(*step)).collect::<Vec<u64>>())
                }
                None => None,
            };
            let several = in_step(array).len();
            let why = if array.shape.contains(&0) {
                "it has no elements".to_string()
            } else if matches!(array.element, ElementType::Char | ElementType::StringArray | ElementType::LongDouble) {
                format!("a table has no cells of {}", array.element.name())
            } else if several > 1 {
                format!("a table has no place for {several} axes: --region chooses one")
            } else if steps.as_ref().is_some_and(|steps| array.shape.first() != Some(&(steps.len() as u64))) {
                "the numbers of its steps are not known".to_string()
            } else {
                fit.push((array, steps));
                continue;
            };
            left_out.push(LeftOut::new(&array.name, why));
        }
        let is_single = |array: &Array| in_step(array).is_empty();
        let is_long = (by_name || !fit.iter().any(|(array, _)| is_single(array)))
            && fit.iter().any(|(array, _)| !is_single(array));
        let mut made =
            Columns { reader, columns: Vec::new(), steps: Vec::new(), rows: 1, axis: None, step: String::new() };
        let mut steps = BTreeSet::new();
        for (array, own) in fit {
            let mut leave = |why: String| left_out.push(LeftOut::new(&array.name, why));
            let extents = in_step(array);
            match (extents.first(), is_long) {
                (None, _) => {}
                (Some(_), false) => {
                    leave(
                        "a row for each step has single values: --only with its name makes a table of its elements"
                            .into(),
                    );
                    continue;
                }
                (Some(n), true) => {
                    let axis = || {
                        let at = array.shape.iter().rposition(|extent| extent == n).unwrap_or(0);
                        array.axes.get(at).cloned().unwrap_or_else(|| "index".into())
                    };
                    let known = made.axis.get_or_insert_with(axis);
                    if made.rows == 1 {
                        made.rows = *n;
                    } else if made.rows != *n {
                        leave(format!("it has {n} elements, and the axis {known} of the table {}", made.rows));
                        continue;
                    }
                }
            }
            let source = match &array.content {
                Content::Values(values) => Source::Values(values.clone()),
                Content::Read { variable, element, parts, .. } => {
                    Source::Read { variable: variable.clone(), element: *element, parts: parts.clone() }
                }
                Content::Chunks { .. } | Content::Boxes { .. } => {
                    leave("its values are not read".into());
                    continue;
                }
            };
            steps.extend(own.iter().flatten().copied());
            let (name, element) = (array.name.clone(), array.element);
            made.columns.push(Column { name, element, steps: own, is_long: !extents.is_empty(), source });
        }
        made.steps = steps.into_iter().collect();
        made.name_columns();
        Ok(made)
    }

    /// Gives the columns of steps and positions names that no variable has.
    fn name_columns(&mut self) {
        let mut taken: BTreeSet<String> = self.columns.iter().flat_map(Column::names).collect();
        let mut free = |wanted: &str| {
            let mut name = wanted.to_string();
            while !taken.insert(name.clone()) {
                name.push('_');
            }
            name
        };
        self.step = free("step");
        self.axis = self.axis.take().map(|axis| free(&axis));
    }

    /// Name of the column with the numbers of steps.
    pub fn step(&self) -> &str {
        &self.step
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Their number.
    pub fn variables(&self) -> u64 {
        self.columns.len() as u64
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Name of the column with the positions of rows in a step; `None`: there is one row for each.
    pub fn axis(&self) -> Option<&str> {
        self.axis.as_deref()
    }

    /// Bytes of all numbers.
    pub fn bytes(&self) -> u64 {
        let rows = self.rows.saturating_mul(self.steps.len().max(1) as u64);
        self.columns.iter().map(|column| rows.saturating_mul(column.size() as u64)).fold(0, u64::saturating_add)
    }

    /// Hands on all rows: of so many steps together that their values have at most so many bytes, but at least of one.
    ///
    /// # Errors
    /// Those of reads and casts; the first of `hand`.
    pub fn hand_on(&self, most: u64, hand: &mut dyn FnMut(&Rows<'_>) -> Result<()>) -> Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let of_step = self.bytes() / self.steps.len().max(1) as u64;
        let together = (most / of_step.max(1)).clamp(1, 1 << 16) as usize;
        if self.steps.is_empty() {
            return hand(&self.rows_of(&[])?);
        }
        self.steps.chunks(together).try_for_each(|steps| hand(&self.rows_of(steps)?))
    }

    fn rows_of<'s>(&'s self, steps: &'s [u64]) -> Result<Rows<'s>> {
        let cells =
            self.columns.iter().map(|column| self.cells(column, steps).map_err(|e| e.in_variable(column.name.clone())));
        Ok(Rows { columns: &self.columns, steps, of_step: self.rows, cells: cells.collect::<Result<_>>()? })
    }

    /// The values of a column in some steps, for each row.
    fn cells(&self, column: &Column, steps: &[u64]) -> Result<(Cells, Vec<bool>)> {
        let own = if column.is_long { self.rows } else { 1 };
        let count = steps.len().max(1);
        let position = |step: u64| steps.binary_search(&step).ok();
        let present = match &column.steps {
            None => vec![true; count],
            Some(all) => steps.iter().map(|step| all.binary_search(step).is_ok()).collect(),
        };
        let lost = || Error::new(ErrorKind::InvalidArgument, "values of a column are missing");
        let repeat = if column.is_long { 1 } else { self.rows as usize };
        if column.element.is_text() {
            let Source::Values(values) = &column.source else { return Err(lost()) };
            let text = |value: &Value| match value {
                Value::String(text) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            };
            let mut texts = vec![String::new(); count * self.rows as usize];
            for (at, cell) in texts.iter_mut().enumerate() {
                let step = at / self.rows as usize;
                let from = match &column.steps {
                    None => Some(0),
                    Some(all) => steps.get(step).and_then(|step| all.binary_search(step).ok()),
                };
                if let Some(from) = from {
                    *cell = text(values.get(from).ok_or_else(lost)?);
                }
            }
            return Ok((Cells::Texts(texts), present));
        }
        let size = column.size();
        let whole = own as usize * size;
        let kind = Kind::of(column.element, ByteOrder::NATIVE).ok_or_else(lost)?;
        let mut bytes = kind.missing().repeat(count * own as usize);
        match &column.source {
            Source::Values(values) => {
                let mut all = Vec::new();
                values.iter().for_each(|value| value.append_to(&mut all));
                match &column.steps {
                    None => {
                        for place in bytes.chunks_mut(whole) {
                            place.copy_from_slice(all.get(..whole).ok_or_else(lost)?);
                        }
                    }
                    Some(own) => {
                        for (from, step) in all.chunks(whole).zip(own) {
                            if let Some(at) = position(*step) {
                                bytes[at * whole..][..whole].copy_from_slice(from);
                            }
                        }
                    }
                }
            }
            Source::Read { variable, element, parts } => {
                let wanted: Vec<&Read> =
                    parts.iter().filter(|part| column.steps.is_none() || position(part.step).is_some()).collect();
                let asked: Vec<Wanted<'_>> = wanted
                    .iter()
                    .map(|part| Wanted {
                        name: variable,
                        element: *element,
                        becomes: column.element,
                        step: part.step,
                        from: &part.from,
                    })
                    .collect();
                for (part, values) in wanted.iter().zip(fetch(self.reader, &asked)?) {
                    // Of axes other than the long one there is one position.
                    let has_steps = column.steps.is_some();
                    let along: u64 = part.bounds.offset.iter().skip(usize::from(has_steps)).sum();
                    let places: Vec<usize> = match has_steps {
                        true => position(part.step).into_iter().collect(),
                        false => (0..count).collect(),
                    };
                    for step in places {
                        let at = step * whole + along as usize * size;
                        bytes.get_mut(at..at + values.len()).ok_or_else(lost)?.copy_from_slice(&values);
                    }
                }
            }
        }
        if repeat > 1 {
            bytes = bytes.chunks(size).flat_map(|value| value.repeat(repeat)).collect();
        }
        Ok((Cells::Numbers(bytes), present))
    }
}
