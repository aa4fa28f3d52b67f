//! Dimensions: numbers, names of integer variables or attributes, the time index, and arithmetic of these.
//!
//! Text becomes a [`Dimension`] by [`Dimension::parse`]: at every place where an operand may stand, the longest name the
//! group knows is taken first. So a variable called `mpsi+1` wins over the sum, and `/aux/nx/2` is half of `/aux/nx`.
//! A group's names are in its [`Scope`].

use crate::model::{Attribute, AttributeSource, Group, Variable};
use crate::name::few;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use thalweg_diagnostics::Problem;
use thalweg_types::{ElementType, Error, ErrorKind, Result};

/// One extent or offset, resolved when the write happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Dimension {
    /// A number.
    Number(u64),
    /// An integer scalar variable of the group, by its full name; its last written value counts.
    Variable(String),
    /// An integer attribute of the group, by its full name.
    Attribute(String),
    /// The group's time dimension: extent 1 in a block.
    Time,
    /// The dimension along which blocks of the ranks are joined in rank order (`JoinedDim`); global extents only.
    Joined,
    /// Arithmetic of the others (`2*NX+1`).
    Expression(Expression),
}

/// Arithmetic over dimensions; whole numbers, division rounds towards zero.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Expression {
    Leaf(Box<Dimension>),
    Negate(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
}

/// The operators of [`Expression`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    const fn symbol(self) -> char {
        match self {
            Operator::Add => '+',
            Operator::Subtract => '-',
            Operator::Multiply => '*',
            Operator::Divide => '/',
            Operator::Remainder => '%',
        }
    }

    const fn from_symbol(symbol: char) -> Option<Operator> {
        Some(match symbol {
            '+' => Operator::Add,
            '-' => Operator::Subtract,
            '*' => Operator::Multiply,
            '/' => Operator::Divide,
            '%' => Operator::Remainder,
            _ => return None,
        })
    }

    const fn binds(self) -> u8 {
        match self {
            Operator::Add | Operator::Subtract => 1,
            Operator::Multiply | Operator::Divide | Operator::Remainder => 2,
        }
    }

    fn apply(self, left: i128, right: i128) -> Option<i128> {
        match self {
            Operator::Add => left.checked_add(right),
            Operator::Subtract => left.checked_sub(right),
            Operator::Multiply => left.checked_mul(right),
            Operator::Divide => left.checked_div(right),
            Operator::Remainder => left.checked_rem(right),
        }
    }
}

/// A name whose value a dimension needs, with the full name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum NameRef<'a> {
    Variable(&'a str),
    Attribute(&'a str),
}

impl Dimension {
    /// The value, from the values of its names.
    ///
    /// - `lookup`: the current value of a variable or attribute; its errors are passed on.
    ///
    /// # Errors
    /// `OutOfBounds` if the result is negative, exceeds 64 bits or is divided by zero; `InvalidArgument` for a joined dimension,
    /// whose extent is known only after all ranks have written.
    pub fn evaluate(&self, lookup: &mut dyn FnMut(NameRef<'_>) -> Result<i128>) -> Result<u64> {
        let value = self.value(lookup)?;
        u64::try_from(value).map_err(|_| {
            let why = if value < 0 { "is negative" } else { "does not fit 64 bits" };
            Error::new(ErrorKind::OutOfBounds, format!("dimension {self} {why}: {value}"))
        })
    }

    fn value(&self, lookup: &mut dyn FnMut(NameRef<'_>) -> Result<i128>) -> Result<i128> {
        match self {
            Dimension::Number(n) => Ok(i128::from(*n)),
            Dimension::Variable(name) => lookup(NameRef::Variable(name)),
            Dimension::Attribute(name) => lookup(NameRef::Attribute(name)),
            Dimension::Time => Ok(1),
            Dimension::Joined => Err(Error::new(
                ErrorKind::InvalidArgument,
                "a joined dimension has no extent before all ranks have written",
            )),
            Dimension::Expression(expression) => expression.value(lookup),
        }
    }

    /// Calls `f` with every name in it.
    pub fn for_each_name<'a>(&'a self, f: &mut dyn FnMut(NameRef<'a>)) {
        match self {
            Dimension::Variable(name) => f(NameRef::Variable(name)),
            Dimension::Attribute(name) => f(NameRef::Attribute(name)),
            Dimension::Number(_) | Dimension::Time | Dimension::Joined => {}
            Dimension::Expression(expression) => expression.for_each_name(f),
        }
    }

    /// Reads one dimension. Blanks around it do not count.
    ///
    /// # Errors
    /// A [`Problem`] for text that is no number, no name of `scope` that may serve as a dimension, and no arithmetic of these.
    /// # Cost
    /// One lookup for a number or a name. In an expression, up to one lookup per operand for each byte of the scope's longest name.
    /// An unknown name is compared with all names of the scope, until a million names have been compared.
    pub fn parse(text: &str, scope: &Scope) -> std::result::Result<Dimension, Problem> {
        // Bounds the nesting, too; longer dimensions would be a mistake.
        const LONGEST: usize = 1024;
        let text = text.trim();
        if text.is_empty() {
            return Err(Problem::new("an empty dimension").expected("a number, a name or an expression"));
        }
        if text.len() > LONGEST {
            return Err(Problem::new(format!("a dimension of {} bytes", text.len())).expected("at most 1024"));
        }
        if let Some(number) = number(text) {
            return number;
        }
        if let Some(found) = scope.dimension(text) {
            return found;
        }
        let mut parser = Parser { text, at: 0, scope };
        let expression = parser.sum()?;
        if let Some(c) = parser.peek() {
            return Err(Problem::new(format!("unexpected {c:?} in dimension {text:?}"))
                .expected("an operator (+ - * / %) or the end"));
        }
        let dimension = match expression {
            Expression::Leaf(leaf) => *leaf,
            other => Dimension::Expression(other),
        };
        let mut constant = true;
        dimension.for_each_name(&mut |_| constant = false);
        if constant && matches!(dimension, Dimension::Expression(_)) {
            dimension
                .evaluate(&mut |_| Ok(0))
                .map_err(|e| Problem::new(e.what().to_string()).expected("a whole number, not negative"))?;
        }
        Ok(dimension)
    }

    /// Reads dimensions separated by commas; blank text means none (a scalar).
    ///
    /// # Errors
    /// The position of the entry in `text` (bytes) and its [`Problem`], for every entry that is wrong.
    pub fn parse_list(
        text: &str,
        scope: &Scope,
    ) -> std::result::Result<Vec<Dimension>, Vec<(std::ops::Range<usize>, Problem)>> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let (mut dimensions, mut problems, mut at) = (Vec::new(), Vec::new(), 0);
        for entry in text.split(',') {
            match Dimension::parse(entry, scope) {
                Ok(dimension) => dimensions.push(dimension),
                Err(problem) => {
                    let start = at + entry.len() - entry.trim_start().len();
                    problems.push((start..(start + entry.trim().len()), problem));
                }
            }
            at += entry.len() + 1;
        }
        if problems.is_empty() { Ok(dimensions) } else { Err(problems) }
    }
}

impl Expression {
    fn value(&self, lookup: &mut dyn FnMut(NameRef<'_>) -> Result<i128>) -> Result<i128> {
        let out_of_range = || {
            let why = match self {
                Expression::Binary(Operator::Divide | Operator::Remainder, ..) => "divides by zero",
                _ => "leaves the range of numbers",
            };
            Error::new(ErrorKind::OutOfBounds, format!("dimension {self} {why}"))
        };
        match self {
            Expression::Leaf(leaf) => leaf.value(lookup),
            Expression::Negate(inner) => inner.value(lookup)?.checked_neg().ok_or_else(out_of_range),
            Expression::Binary(operator, left, right) => {
                let (left, right) = (left.value(lookup)?, right.value(lookup)?);
                operator.apply(left, right).ok_or_else(out_of_range)
            }
        }
    }

    fn for_each_name<'a>(&'a self, f: &mut dyn FnMut(NameRef<'a>)) {
        match self {
            Expression::Leaf(leaf) => leaf.for_each_name(f),
            Expression::Negate(inner) => inner.for_each_name(f),
            Expression::Binary(_, left, right) => {
                left.for_each_name(f);
                right.for_each_name(f);
            }
        }
    }

    fn binds(&self) -> u8 {
        match self {
            Expression::Binary(operator, ..) => operator.binds(),
            Expression::Negate(_) => 3,
            Expression::Leaf(_) => 4,
        }
    }
}

impl fmt::Display for Dimension {
    /// Text that parses to the same dimension, except for the time dimension, whose name the group knows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dimension::Number(n) => write!(f, "{n}"),
            Dimension::Variable(name) | Dimension::Attribute(name) => f.write_str(name),
            Dimension::Time => f.write_str("(time index)"),
            Dimension::Joined => f.write_str("JoinedDim"),
            Dimension::Expression(expression) => write!(f, "{expression}"),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |f: &mut fmt::Formatter<'_>, part: &Expression, least: u8| {
            if part.binds() < least { write!(f, "({part})") } else { write!(f, "{part}") }
        };
        match self {
            Expression::Leaf(leaf) => write!(f, "{leaf}"),
            Expression::Negate(inner) => {
                f.write_str("-")?;
                part(f, inner, 3)
            }
            Expression::Binary(operator, left, right) => {
                part(f, left, operator.binds())?;
                write!(f, "{}", operator.symbol())?;
                part(f, right, operator.binds() + 1)
            }
        }
    }
}

/// Text of digits only as a number; `None` for other text.
fn number(text: &str) -> Option<std::result::Result<Dimension, Problem>> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(
        text.parse()
            .map(Dimension::Number)
            .map_err(|_| Problem::new(format!("number {text} is too large")).expected(format!("at most {}", u64::MAX))),
    )
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    scope: &'a Scope,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn sum(&mut self) -> std::result::Result<Expression, Problem> {
        self.chain(1, Parser::product)
    }

    fn product(&mut self) -> std::result::Result<Expression, Problem> {
        self.chain(2, Parser::operand)
    }

    /// Operands joined by operators that bind this much, from the left.
    fn chain(
        &mut self,
        binds: u8,
        operand: fn(&mut Self) -> std::result::Result<Expression, Problem>,
    ) -> std::result::Result<Expression, Problem> {
        let mut left = operand(self)?;
        while let Some(operator) = self.peek().and_then(Operator::from_symbol).filter(|o| o.binds() == binds) {
            self.at += 1;
            left = Expression::Binary(operator, Box::new(left), Box::new(operand(self)?));
        }
        Ok(left)
    }

    fn operand(&mut self) -> std::result::Result<Expression, Problem> {
        let Some(first) = self.peek() else {
            return Err(Problem::new(format!("dimension {:?} ends early", self.text)).expected("a number or a name"));
        };
        let rest = &self.text[self.at..];
        if let Some((length, found)) = self.scope.longest_name(rest) {
            self.at += length;
            return found.map(|leaf| Expression::Leaf(Box::new(leaf)));
        }
        match first {
            '(' => {
                self.at += 1;
                let inner = self.sum()?;
                if self.peek() != Some(')') {
                    return Err(Problem::new(format!("an open parenthesis in dimension {:?}", self.text)).expected(")"));
                }
                self.at += 1;
                Ok(inner)
            }
            '-' => {
                self.at += 1;
                Ok(Expression::Negate(Box::new(self.operand()?)))
            }
            _ => {
                // A slash belongs to a name (a path) where an operand is expected.
                let end = rest.find(|c: char| c.is_whitespace() || "+-*%()".contains(c)).unwrap_or(rest.len());
                let word =
                    if first.is_ascii_digit() { rest[..end].split('/').next().unwrap_or("") } else { &rest[..end] };
                if word.is_empty() {
                    return Err(Problem::new(format!("unexpected {first:?} in dimension {:?}", self.text))
                        .expected("a number or a name"));
                }
                match number(word) {
                    Some(number) => {
                        self.at += word.len();
                        Ok(Expression::Leaf(Box::new(number?)))
                    }
                    None => Err(self.scope.unknown(word)),
                }
            }
        }
    }
}

/// The names a group's dimensions, attributes and meshes may use: variables and attributes by full name, with or without
/// the first slash, and by bare name where only one has it; the time index; `JoinedDim`.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Names that unknown ones were compared with.
    look_ups: Cell<usize>,
    entries: Vec<Entry>,
    /// Name in any accepted spelling, to positions in `entries`.
    names: HashMap<String, Spelling>,
    time_index: Option<String>,
    longest: usize,
}

#[derive(Debug, Clone)]
struct Entry {
    full: String,
    kind: EntryKind,
}

#[derive(Debug, Clone)]
enum EntryKind {
    Variable { element: ElementType, scalar: bool },
    Attribute { whole: bool },
}

#[derive(Debug, Clone, Default)]
struct Spelling {
    full: Vec<usize>,
    /// Full names but for the first slash.
    slashed: Vec<usize>,
    bare: Vec<usize>,
}

impl Spelling {
    /// The nearest meaning first.
    fn lists(&self) -> [&Vec<usize>; 3] {
        [&self.full, &self.slashed, &self.bare]
    }
}

impl Scope {
    /// The names of a group.
    pub fn of(group: &Group) -> Scope {
        let mut scope = Scope::default();
        scope.set_time_index(group.time_index.as_deref());
        group.variables.iter().for_each(|v| scope.add_variable(v, v.local.is_empty()));
        group.attributes.iter().for_each(|a| scope.add_attribute(a));
        scope
    }

    /// Sets the name of the time index.
    pub fn set_time_index(&mut self, name: Option<&str>) {
        self.time_index = name.map(str::to_string);
        self.longest = self.longest.max(name.map_or(0, str::len));
    }

    /// Adds a variable; a second one of the same full name adds nothing.
    pub fn add_variable(&mut self, variable: &Variable, scalar: bool) {
        let full = variable.full_name();
        if self.exact(&full, true).is_none() {
            self.add(full, &variable.name, EntryKind::Variable { element: variable.element, scalar });
        }
    }

    /// Adds an attribute. One that takes its value from a variable serves as a dimension where that variable does, so
    /// add variables first.
    pub fn add_attribute(&mut self, attribute: &Attribute) {
        let whole = match &attribute.value {
            AttributeSource::One(value) => value.as_u64().is_some(),
            AttributeSource::Many(..) => false,
            AttributeSource::Variable(name) => {
                self.variable(name).is_some_and(|(_, e, scalar)| scalar && e.is_integer())
            }
        };
        let full = attribute.full_name();
        match self.exact(&full, false) {
            Some(at) => self.entries[at].kind = EntryKind::Attribute { whole },
            None => self.add(full, &attribute.name, EntryKind::Attribute { whole }),
        }
    }

    fn add(&mut self, full: String, bare: &str, kind: EntryKind) {
        let at = self.entries.len();
        let slashed = if let Some(rest) = full.strip_prefix('/') { rest.to_string() } else { format!("/{full}") };
        self.longest = self.longest.max(full.len() + 1);
        if bare != full && bare != slashed {
            self.names.entry(bare.to_string()).or_default().bare.push(at);
        }
        self.names.entry(slashed).or_default().slashed.push(at);
        self.names.entry(full.clone()).or_default().full.push(at);
        self.entries.push(Entry { full, kind });
    }

    fn exact(&self, full: &str, variable: bool) -> Option<usize> {
        let spelling = self.names.get(full)?;
        spelling
            .full
            .iter()
            .copied()
            .find(|at| matches!(self.entries[*at].kind, EntryKind::Variable { .. }) == variable)
    }

    /// The entry of a name: a variable takes precedence over an attribute, a full name over a bare one; `Err` if a bare name is
    /// ambiguous.
    fn find(&self, name: &str) -> Option<std::result::Result<&Entry, Problem>> {
        let spelling = self.names.get(name)?;
        let is_variable = |at: &&usize| matches!(self.entries[**at].kind, EntryKind::Variable { .. });
        for list in spelling.lists() {
            let variables: Vec<&usize> = list.iter().filter(is_variable).collect();
            let chosen = if variables.is_empty() { list.iter().collect() } else { variables };
            match chosen[..] {
                [] => {}
                [one] => return Some(Ok(&self.entries[*one])),
                [..] => {
                    const LISTED: usize = 20;
                    let all = chosen.iter().take(LISTED).map(|at| self.entries[**at].full.as_str());
                    let mut all = all.collect::<Vec<_>>().join(", ");
                    if chosen.len() > LISTED {
                        all.push_str(&format!(", ... ({} in all)", chosen.len()));
                    }
                    return Some(Err(Problem::new(format!("name {name:?} is ambiguous"))
                        .expected(format!("one of the full names {all}"))));
                }
            }
        }
        None
    }

    /// The variable meant by a full or bare name: its full name, type, and whether it is a scalar.
    pub fn variable(&self, name: &str) -> Option<(&str, ElementType, bool)> {
        let spelling = self.names.get(name)?;
        for list in spelling.lists() {
            let mut variables = list.iter().filter_map(|at| match &self.entries[*at] {
                Entry { full, kind: EntryKind::Variable { element, scalar } } => {
                    Some((full.as_str(), *element, *scalar))
                }
                _ => None,
            });
            if let Some(found) = variables.next() {
                return variables.next().is_none().then_some(found);
            }
        }
        None
    }

    /// The variable of this name.
    ///
    /// # Errors
    /// The problem that there is none, or that several have this name.
    pub fn need_variable(&self, name: &str) -> std::result::Result<(&str, ElementType, bool), Problem> {
        match self.variable(name) {
            Some(found) => Ok(found),
            None => match self.find(name) {
                Some(Err(several)) => Err(several),
                _ => Err(Problem::new(format!("no variable {name:?} in this group"))
                    .expected("the full name of a variable, or its bare name where only one has it")
                    .nearest_to(
                        name,
                        few(
                            &self.look_ups,
                            self.entries
                                .iter()
                                .filter(|e| matches!(e.kind, EntryKind::Variable { .. }))
                                .map(|e| e.full.as_str()),
                        ),
                    )),
            },
        }
    }

    /// The dimension that the whole text names; `None` if it names none.
    fn dimension(&self, text: &str) -> Option<std::result::Result<Dimension, Problem>> {
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        if let Some(found) = self.find(text) {
            return Some(found.and_then(|entry| {
                match &entry.kind {
                    EntryKind::Variable { element, .. } if !element.is_integer() => {
                        Err(Problem::new(format!("variable {text:?} of type {element} cannot serve as a dimension"))
                            .expected("an integer scalar"))
                    }
                    EntryKind::Variable { scalar: false, .. } => {
                        Err(Problem::new(format!("array {text:?} cannot serve as a dimension"))
                            .expected("an integer scalar"))
                    }
                    EntryKind::Variable { .. } => Ok(Dimension::Variable(entry.full.clone())),
                    EntryKind::Attribute { whole: true } => Ok(Dimension::Attribute(entry.full.clone())),
                    EntryKind::Attribute { whole: false } => {
                        Err(Problem::new(format!("attribute {text:?} cannot serve as a dimension"))
                            .expected("a single whole number, not negative, or an integer scalar variable"))
                    }
                }
            }));
        }
        if self.time_index.as_deref() == Some(text) {
            return Some(Ok(Dimension::Time));
        }
        ["JoinedDim", "joined"].iter().any(|j| j.eq_ignore_ascii_case(text)).then_some(Ok(Dimension::Joined))
    }

    /// The longest name at the start of `text` that ends where a word ends, and its length.
    fn longest_name(&self, text: &str) -> Option<(usize, std::result::Result<Dimension, Problem>)> {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        (1..=text.len().min(self.longest))
            .rev()
            .filter(|end| text.is_char_boundary(*end))
            .filter(|end| !(text[*end..].starts_with(word) && text[..*end].ends_with(word)))
            .find_map(|end| {
                // Joined dimensions stand alone.
                let found = self.dimension(&text[..end]).filter(|d| !matches!(d, Ok(Dimension::Joined)))?;
                Some((end, found))
            })
    }

    fn unknown(&self, name: &str) -> Problem {
        let known = self.entries.iter().map(|e| e.full.as_str()).chain(self.time_index.as_deref());
        Problem::new(format!("unknown name {name:?} in a dimension"))
            .expected("a number, an integer scalar variable or attribute of the group, or its time index")
            .nearest_to(name, few(&self.look_ups, known))
    }
}

/// Where extents or offsets are at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Extents {
    Local,
    Global,
    Offset,
}

/// Whether local extents, global extents and offsets fit each other; the time index counts in none of them.
///
/// # Errors
/// The first thing that does not fit, and which of the three lists is at fault.
pub fn check_agreement(
    local: &[Dimension],
    global: &[Dimension],
    offset: &[Dimension],
) -> std::result::Result<(), (Extents, Problem)> {
    // One byte holds the number of dimensions in files.
    const MOST: usize = u8::MAX as usize;
    let plain = |list: &[Dimension]| list.iter().filter(|d| **d != Dimension::Time).count();
    for (extents, list) in [(Extents::Local, local), (Extents::Global, global), (Extents::Offset, offset)] {
        if list.len() > MOST {
            return Err((
                extents,
                Problem::new(format!("{} dimensions", list.len())).expected(format!("at most {MOST}")),
            ));
        }
        if list.len() - plain(list) > 1 {
            return Err((extents, Problem::new("the time index occurs twice").expected("once at most")));
        }
        let joined = list.iter().filter(|d| **d == Dimension::Joined).count();
        if joined > 0 && extents != Extents::Global {
            let problem = Problem::new("JoinedDim is no local extent and no offset")
                .expected("JoinedDim in the global dimensions");
            return Err((extents, problem));
        }
        if joined > 1 {
            return Err((extents, Problem::new("JoinedDim occurs twice").expected("one joined dimension")));
        }
    }
    if global.is_empty() {
        if offset.is_empty() {
            return Ok(());
        }
        return Err((Extents::Offset, Problem::new("offsets without global dimensions").expected("global dimensions")));
    }
    if plain(global) != plain(local) {
        let what = format!("{} dimensions in a global array of {}", plain(local), plain(global));
        return Err((Extents::Local, Problem::new(what).expected(format!("{} dimensions", plain(global)))));
    }
    let joined = global.contains(&Dimension::Joined);
    if offset.is_empty() && !joined {
        return Err((Extents::Offset, Problem::new("global dimensions without offsets").expected("offsets")));
    }
    if !offset.is_empty() && plain(offset) != plain(global) {
        let what = format!("{} offsets in a global array of {} dimensions", plain(offset), plain(global));
        return Err((Extents::Offset, Problem::new(what).expected(format!("{} offsets", plain(global)))));
    }
    Ok(())
}

/// Marks the variables that dimensions name, directly or through an attribute.
pub(crate) fn mark_dimensions(group: &mut Group) {
    let Group { variables, attributes, .. } = &*group;
    let behind: HashMap<String, &str> = attributes
        .iter()
        .filter_map(|a| match &a.value {
            AttributeSource::Variable(name) => Some((a.full_name(), name.as_str())),
            _ => None,
        })
        .collect();
    let mut used = std::collections::HashSet::new();
    for dimension in variables.iter().flat_map(|v| v.local.iter().chain(&v.global).chain(&v.offset)) {
        dimension.for_each_name(&mut |name| {
            let variable = match name {
                NameRef::Variable(name) => Some(name),
                NameRef::Attribute(name) => behind.get(name).copied(),
            };
            used.extend(variable.map(str::to_string));
        });
    }
    for variable in &mut group.variables {
        variable.is_dimension = used.contains(&variable.full_name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_types::Value;

    fn group() -> Group {
        let variable = |name: &str, path: &str, element| Variable::new(1, name, path, element);
        let attribute = |name: &str, value| Attribute { id: 1, name: name.into(), path: String::new(), value };
        Group {
            time_index: Some("iter".into()),
            variables: vec![
                variable("NX", "", ElementType::I32),
                variable("NY", "/aux", ElementType::U64),
                variable("mpsi", "", ElementType::I32),
                variable("mpsi+1", "", ElementType::I32),
                variable("same", "/a", ElementType::I32),
                variable("same", "/b", ElementType::I32),
                variable("t", "", ElementType::F64),
                Variable { local: vec![Dimension::Number(3)], ..variable("list", "", ElementType::I32) },
                variable("12", "", ElementType::I32),
            ],
            attributes: vec![
                attribute("levels", AttributeSource::One(Value::I32(7))),
                attribute("units", AttributeSource::One(Value::String(b"m".to_vec()))),
                attribute("like nx", AttributeSource::Variable("NX".into())),
                attribute("below", AttributeSource::One(Value::I32(-1))),
            ],
            ..Group::default()
        }
    }

    fn parse(text: &str) -> std::result::Result<Dimension, String> {
        Dimension::parse(text, &Scope::of(&group())).map_err(|p| p.to_string())
    }

    fn value(text: &str) -> Result<u64> {
        parse(text).unwrap().evaluate(&mut |name| match name {
            NameRef::Variable("NX") => Ok(10),
            NameRef::Variable("/aux/NY") => Ok(i128::from(u64::MAX)),
            NameRef::Variable("mpsi") => Ok(90),
            NameRef::Variable("mpsi+1") => Ok(5),
            NameRef::Attribute("levels") => Ok(7),
            other => Err(Error::new(ErrorKind::NotFound, format!("{other:?}"))),
        })
    }

    #[test]
    fn names_are_found_full_bare_and_with_or_without_the_first_slash() {
        let variable = |name: &str| Ok(Dimension::Variable(name.into()));
        assert_eq!(parse(" NX "), variable("NX"));
        assert_eq!(parse("/NX"), variable("NX"));
        assert_eq!(parse("NY"), variable("/aux/NY"));
        assert_eq!(parse("aux/NY"), variable("/aux/NY"));
        assert_eq!(parse("/b/same"), variable("/b/same"));
        assert_eq!(parse("like nx"), Ok(Dimension::Attribute("like nx".into())));
        assert_eq!(parse("iter"), Ok(Dimension::Time));
        assert_eq!(parse("joineddim"), Ok(Dimension::Joined));
        assert_eq!(parse("12"), Ok(Dimension::Number(12)), "digits are always a number");
    }

    #[test]
    fn a_variable_literally_so_named_wins_over_the_expression() {
        assert_eq!(parse("mpsi+1"), Ok(Dimension::Variable("mpsi+1".into())));
        assert_eq!(value("2*mpsi+1").unwrap(), 10, "twice the variable mpsi+1");
        assert_eq!(value("mpsi + 1").unwrap(), 91);
        assert_eq!(value("mpsi+2").unwrap(), 92);
    }

    #[test]
    fn arithmetic_follows_the_usual_rules() {
        assert_eq!(value("2*NX+1").unwrap(), 21);
        assert_eq!(value("1+2*(NX-3)%4").unwrap(), 3);
        assert_eq!(value("NX-3-2").unwrap(), 5);
        assert_eq!(value("-(-NX)/3").unwrap(), 3);
        assert_eq!(value("/aux/NY/2").unwrap(), u64::MAX / 2);
        assert_eq!(value("aux/NY/aux/NY").unwrap(), 1);
        assert_eq!(value("levels*iter").unwrap(), 7);
    }

    #[test]
    fn arithmetic_that_leaves_the_range_is_an_error() {
        for (text, part) in [
            ("NX-11", "dimension NX-11 is negative: -1"),
            ("NY+1", "does not fit 64 bits"),
            ("NY*NY*NY", "leaves the range of numbers"),
            ("1/(NX-10)", "dimension 1/(NX-10) divides by zero"),
            ("1%(NX-10)", "divides by zero"),
        ] {
            let error = value(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfBounds);
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn what_cannot_serve_as_a_dimension_says_why() {
        for (text, part) in [
            ("", "an empty dimension"),
            ("t", "variable \"t\" of type double cannot serve as a dimension"),
            ("2*t", "variable \"t\" of type double"),
            ("list", "array \"list\" cannot serve"),
            ("units", "attribute \"units\" cannot serve"),
            ("below", "attribute \"below\" cannot serve"),
            ("same", "name \"same\" is ambiguous; expected: one of the full names /a/same, /b/same"),
            ("MX", "unknown name \"MX\" in a dimension"),
            ("2*NXX", "nearest known name: \"NX\""),
            ("18446744073709551616", "number 18446744073709551616 is too large"),
            ("-1", "dimension -1 is negative: -1"),
            ("1/0", "divides by zero"),
            ("2*", "ends early"),
            ("(NX", "an open parenthesis"),
            ("NX)", "unexpected ')'"),
            ("NX NX", "unexpected 'N'"),
            ("*2", "unexpected '*'"),
            ("2NX", "unknown name \"2NX\""),
            ("2*joined", "unknown name \"joined\""),
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
        assert!(parse(&"(".repeat(100_000)).is_err());
        assert!(parse(&"(".repeat(1000)).is_err());
        assert!(parse(&"-".repeat(1000)).is_err());
    }

    #[test]
    fn display_parses_back_to_the_same() {
        for text in ["NX", "2*NX+1", "2*(NX+1)", "NX-(3-levels)", "-(NX+1)*-2", "NX/(2*3)%4", "JoinedDim", "NX+-NX"] {
            let dimension = parse(text).unwrap();
            assert_eq!(dimension.to_string(), text);
        }
    }

    #[test]
    fn lists_tell_where_each_wrong_entry_is() {
        let scope = Scope::of(&group());
        assert_eq!(Dimension::parse_list(" ", &scope), Ok(vec![]));
        assert_eq!(Dimension::parse_list("3, iter", &scope), Ok(vec![Dimension::Number(3), Dimension::Time]));
        let wrong = Dimension::parse_list("3, MX,NX,", &scope).unwrap_err();
        assert_eq!(wrong.iter().map(|(r, _)| r.clone()).collect::<Vec<_>>(), [3..5, 9..9]);
    }

    #[test]
    fn local_global_and_offset_must_agree_apart_from_time() {
        let n = |n: usize| vec![Dimension::Number(2); n];
        let timed = vec![Dimension::Time, Dimension::Number(2)];
        assert_eq!(check_agreement(&n(2), &n(2), &n(2)), Ok(()));
        assert_eq!(check_agreement(&timed, &n(1), &n(1)), Ok(()));
        assert_eq!(check_agreement(&n(1), &[Dimension::Joined], &[]), Ok(()));
        let at = |l: &[Dimension], g: &[Dimension], o: &[Dimension]| check_agreement(l, g, o).unwrap_err().0;
        assert_eq!(at(&n(1), &n(2), &n(2)), Extents::Local);
        assert_eq!(at(&n(2), &n(2), &n(1)), Extents::Offset);
        assert_eq!(at(&n(2), &n(2), &[]), Extents::Offset);
        assert_eq!(at(&n(2), &[], &n(2)), Extents::Offset);
        assert_eq!(at(&[Dimension::Joined], &[], &[]), Extents::Local);
        assert_eq!(at(&n(2), &[Dimension::Joined, Dimension::Joined], &[]), Extents::Global);
        assert_eq!(at(&n(300), &[], &[]), Extents::Local);
    }

    #[test]
    fn variables_used_through_attributes_are_marked_too() {
        let mut group = group();
        group.variables[7].local = vec![Dimension::Attribute("like nx".into())];
        group.variables[6].local = vec![parse("2*(NY+1)").unwrap()];
        mark_dimensions(&mut group);
        let marked: Vec<String> = group.variables.iter().filter(|v| v.is_dimension).map(|v| v.full_name()).collect();
        assert_eq!(marked, ["NX", "/aux/NY"]);
    }
}
