//! Generated calls: the program text that writes or reads a group, to be included by a program.
//!
//! | file | holds |
//! |---|---|
//! | `gwrite_<group>.ch`, `.fh` | `adios_groupsize`, `adios_group_size`, an `adios_write` per variable |
//! | `gread_<group>.ch`, `.fh` | an `adios_read` per variable |
//!
//! Names are those of `gpp.py` of ADIOS 1.x, so that its programs need no change: `adios_handle`, `adios_groupsize`,
//! `adios_totalsize`, `adios_buf_size`, and in Fortran `adios_err`. What stands for a variable in the program is its
//! `gwrite` (`gread`), else its name. Lines of `<gwrite src="..."/>` come where they stand in the document.
//!
//! Source: Lofstead et al., SAND2009-7763, generated calls. Differs: sizes are counted in 64 bits; a scalar that the
//! program does not read back (`read="no"`) and that dimensions name is given to the library instead, so that another
//! number of ranks reads its own part.

use crate::dimension::{Dimension, Expression, Operator};
use crate::model::{AttributeSource, Group, Variable};
use std::collections::HashMap;
use std::fmt::Write;
use thalweg_types::{ElementType, Error, ErrorKind, Result};

/// Longest line of free-form Fortran.
const LONGEST: usize = 132;
/// Terms of a sum in one Fortran statement, which may have 39 continuation lines.
const TERMS: usize = 32;

/// Language of generated calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// C and C++.
    C,
    /// Fortran, free form.
    Fortran,
}

/// A file to be included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Include {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The two files of a group: the calls that write it, and those that read it.
///
/// - `document`: name of the file that describes it, for a comment.
///
/// # Errors
/// `Config` for a group whose name makes no file name.
pub fn includes(group: &Group, document: &str, language: Language) -> Result<[Include; 2]> {
    if group.name.contains(['/', '\\', '\0']) {
        let what = format!("group \"{}\": a name with a slash makes no file name", group.name);
        return Err(Error::new(ErrorKind::Config, what));
    }
    let ending = if language == Language::C { "ch" } else { "fh" };
    let file = |what: &str, text: String| Include { name: format!("g{what}_{}.{ending}", group.name), text };
    Ok([
        file("write", Text::new(group, document, language, CallDirection::Write).write()),
        file("read", Text::new(group, document, language, CallDirection::Read).read()),
    ])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CallDirection {
    Write,
    Read,
}

struct Text<'g> {
    group: &'g Group,
    language: Language,
    direction: CallDirection,
    by_name: HashMap<String, &'g Variable>,
    out: String,
    /// How deep the program's own text is nested.
    depth: usize,
}

impl<'g> Text<'g> {
    fn new(group: &'g Group, document: &str, language: Language, direction: CallDirection) -> Text<'g> {
        let by_name = group.variables.iter().map(|v| (v.full_name(), v)).collect();
        let mut text = Text { group, language, direction, by_name, out: String::new(), depth: 0 };
        let printable = |name: &str| !name.contains("*/") && !name.contains(char::is_control);
        if printable(document) && printable(&group.name) {
            let what = format!("Made by `thalweg gen` of group {} in {document}: change that, not this.", group.name);
            match language {
                Language::C => text.line(&format!("/* {what} */")),
                Language::Fortran => text.line(&format!("! {what}")),
            }
        }
        text
    }

    fn write(mut self) -> String {
        let terms: Vec<String> = self.written().map(|v| self.bytes(v)).collect();
        self.sum(&terms);
        self.group_size();
        for (at, variable) in self.group.variables.iter().enumerate() {
            self.own_text(at);
            if variable.write {
                self.write_call(variable);
            }
        }
        self.own_text(self.group.variables.len());
        self.out
    }

    fn read(mut self) -> String {
        self.assign("adios_groupsize", "0");
        self.assign("adios_totalsize", "0");
        self.group_size();
        for variable in &self.group.variables {
            if variable.read {
                let bytes = self.bytes(variable);
                self.assign("adios_buf_size", &bytes);
                let target = self.address(variable, false);
                self.call("adios_read", &[&self.quoted(variable), &target, "adios_buf_size"]);
            } else if variable.is_dimension && variable.local.is_empty() {
                self.write_call(variable);
            }
        }
        self.out
    }

    fn written(&self) -> impl Iterator<Item = &'g Variable> + use<'g> {
        self.group.variables.iter().filter(|v| v.write)
    }

    /// The program's expression for it.
    fn expression(&self, variable: &Variable) -> String {
        let given = match self.direction {
            CallDirection::Write => variable.gwrite.as_ref(),
            CallDirection::Read => variable.gread.as_ref().or(variable.gwrite.as_ref()),
        };
        let given = given.map(|g| g.trim()).filter(|g| !g.is_empty());
        given.unwrap_or(&variable.name).to_string()
    }

    /// The argument of a call: in C the address of a scalar. `given`: the call reads the value and stores nothing there.
    fn address(&self, variable: &Variable, given: bool) -> String {
        let expression = self.expression(variable);
        let by_value = variable.local.is_empty() && variable.element != ElementType::String;
        if self.language == Language::Fortran || !by_value || expression.starts_with('&') {
            return expression;
        }
        match c_type(variable.element) {
            // Only an expression with a place in memory has an address.
            Some(c_type) if given && !has_place(&expression) => format!("&({c_type}){{{expression}}}"),
            _ if has_place(&expression) => format!("&{expression}"),
            _ => format!("&({expression})"),
        }
    }

    /// Its full name, as ADIOS 1.13 finds no other where a path is given.
    fn quoted(&self, variable: &Variable) -> String {
        let name = variable.full_name();
        match self.language {
            Language::C => format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
            Language::Fortran => format!("\"{}\"", name.replace('"', "\"\"")),
        }
    }

    /// How many bytes it has, as an expression.
    fn bytes(&self, variable: &Variable) -> String {
        let fortran = self.language == Language::Fortran;
        if variable.element == ElementType::String {
            let expression = self.expression(variable);
            return match (fortran, self.direction) {
                (true, _) => format!("len({expression})"),
                (false, CallDirection::Write) => format!("strlen({expression})"),
                (false, CallDirection::Read) => format!("sizeof ({expression})"),
            };
        }
        let size = variable.element.size();
        let extents = variable.local.iter().filter(|d| **d != Dimension::Time);
        let extents: Vec<String> = extents.map(|d| self.extent(d)).collect();
        if extents.is_empty() {
            return size.to_string();
        }
        let size = if fortran { format!("{size}_8") } else { format!("(uint64_t) {size}") };
        format!("{size} * {}", extents.join(" * "))
    }

    fn extent(&self, dimension: &Dimension) -> String {
        match dimension {
            Dimension::Number(n) => n.to_string(),
            Dimension::Variable(name) => match self.by_name.get(name) {
                Some(variable) => in_parentheses(&self.expression(variable)),
                None => in_parentheses(name),
            },
            Dimension::Attribute(name) => {
                let attribute = self.group.attributes.iter().find(|a| a.full_name() == *name);
                match attribute.map(|a| &a.value) {
                    Some(AttributeSource::One(value)) => value.to_string(),
                    Some(AttributeSource::Variable(name)) => self.extent(&Dimension::Variable(name.clone())),
                    _ => in_parentheses(name),
                }
            }
            Dimension::Time | Dimension::Joined => "1".to_string(),
            Dimension::Expression(expression) => format!("({})", self.arithmetic(expression)),
        }
    }

    fn arithmetic(&self, expression: &Expression) -> String {
        let inner = |e: &Expression| match e {
            Expression::Binary(..) => format!("({})", self.arithmetic(e)),
            _ => self.arithmetic(e),
        };
        match expression {
            Expression::Leaf(dimension) => self.extent(dimension),
            Expression::Negate(e) => format!("(-{})", inner(e)),
            Expression::Binary(Operator::Remainder, l, r) if self.language == Language::Fortran => {
                format!("mod({}, {})", self.arithmetic(l), self.arithmetic(r))
            }
            Expression::Binary(operator, l, r) => {
                let symbol = match operator {
                    Operator::Add => '+',
                    Operator::Subtract => '-',
                    Operator::Multiply => '*',
                    Operator::Divide => '/',
                    Operator::Remainder => '%',
                };
                format!("{} {symbol} {}", inner(l), inner(r))
            }
        }
    }

    /// Counts the bytes of the group.
    fn sum(&mut self, terms: &[String]) {
        if terms.is_empty() {
            return self.assign("adios_groupsize", "0");
        }
        let at_a_time = if self.language == Language::C { terms.len() } else { TERMS };
        for (i, some) in terms.chunks(at_a_time).enumerate() {
            let carried = (i > 0).then(|| "adios_groupsize".to_string());
            let parts: Vec<&str> = carried.iter().chain(some).map(String::as_str).collect();
            let (end, join) = match self.language {
                Language::C => (";", "\n                + "),
                Language::Fortran => ("", " &\n                + "),
            };
            let sum = format!("adios_groupsize = {}{end}", parts.join(join));
            sum.lines().for_each(|line| self.line(line));
        }
    }

    fn assign(&mut self, name: &str, value: &str) {
        let end = if self.language == Language::C { ";" } else { "" };
        self.line(&format!("{name} = {value}{end}"));
    }

    fn group_size(&mut self) {
        let total = if self.language == Language::C { "&adios_totalsize" } else { "adios_totalsize" };
        self.call("adios_group_size", &["adios_groupsize", total]);
    }

    fn write_call(&mut self, variable: &Variable) {
        self.call("adios_write", &[&self.quoted(variable), &self.address(variable, true)]);
    }

    fn call(&mut self, function: &str, arguments: &[&str]) {
        let arguments = arguments.join(", ");
        match self.language {
            Language::C => self.line(&format!("{function} (adios_handle, {arguments});")),
            Language::Fortran => self.line(&format!("call {function} (adios_handle, {arguments}, adios_err)")),
        }
    }

    /// The document's own lines in front of a variable.
    fn own_text(&mut self, before: usize) {
        for text in self.group.program_text.iter().filter(|t| t.before == before) {
            for line in text.text.lines().map(str::trim) {
                let (out, into) = match self.language {
                    Language::C => braces(line),
                    Language::Fortran => blocks(line),
                };
                self.depth = self.depth.saturating_sub(out);
                self.line(line);
                self.depth += into;
            }
        }
    }

    /// Adds a line, indented; long ones of Fortran are continued.
    fn line(&mut self, line: &str) {
        let indent = "    ".repeat(self.depth.min(8));
        let mut left = line;
        let mut start = indent.clone();
        while self.language == Language::Fortran && !left.starts_with('!') && start.len() + left.len() > LONGEST {
            let mut end = LONGEST - start.len() - 1;
            while !left.is_char_boundary(end) {
                end -= 1;
            }
            // With a continuation mark on both sides, a line may end anywhere, even in a name; preferably after a blank.
            let end = left[..end].rfind(' ').map(|i| i + 1).filter(|i| *i > end / 2).unwrap_or(end);
            let _ = writeln!(self.out, "{start}{}&", &left[..end]);
            left = &left[end..];
            start = format!("{indent}    &");
        }
        let _ = writeln!(self.out, "{}", format!("{start}{left}").trim_end());
    }
}

/// As an operand: a number or a name stays as it is.
fn in_parentheses(expression: &str) -> String {
    let plain = expression.chars().all(|c| c.is_alphanumeric() || c == '_');
    if plain { expression.to_string() } else { format!("({expression})") }
}

/// Whether an expression of C refers to memory: a name, its members and elements, or a dereferenced pointer.
fn has_place(expression: &str) -> bool {
    let mut depth = 0;
    let (mut inside, mut last) = (expression.trim_start_matches('*'), ' ');
    if !inside.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        return false;
    }
    while let Some(c) = inside.chars().next() {
        inside = &inside[c.len_utf8()..];
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ if depth > 0 => {}
            '-' if inside.starts_with('>') => {}
            '>' if last == '-' => {}
            c if c.is_alphanumeric() || c == '_' || c == '.' => {}
            _ => return false,
        }
        last = c;
    }
    true
}

fn c_type(element: ElementType) -> Option<&'static str> {
    use ElementType::*;
    Some(match element {
        I8 => "signed char",
        I16 => "short",
        I32 => "int",
        I64 => "long long",
        U8 => "unsigned char",
        U16 => "unsigned short",
        U32 => "unsigned int",
        U64 => "unsigned long long",
        F32 => "float",
        F64 => "double",
        LongDouble => "long double",
        _ => return None,
    })
}

/// Number of levels that a line of C closes before it is printed, and opens after it.
fn braces(line: &str) -> (usize, usize) {
    let out = line.chars().take_while(|c| *c == '}').count();
    let opened = line.matches('{').count();
    let closed = line.matches('}').count() - out;
    (out, opened.saturating_sub(closed))
}

/// The same for Fortran.
fn blocks(line: &str) -> (usize, usize) {
    let low = line.to_ascii_lowercase();
    let first: String = low.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
    let ends = first.starts_with("end") && !low.contains('=');
    let middle = ["else", "elseif", "case", "contains"].contains(&first.as_str());
    let begins = low.ends_with("then") || ["do", "select"].contains(&first.as_str()) || (middle && first != "elseif");
    (usize::from(ends || middle), usize::from(begins))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml;

    fn of(body: &str, language: Language) -> [String; 2] {
        let document = format!(
            r#"<adios-config host-language="{}"><adios-group name="g" time-index="it">{body}</adios-group></adios-config>"#,
            if language == Language::C { "C" } else { "Fortran" }
        );
        let schema = xml::parse(&document, "g.xml").unwrap_or_else(|e| panic!("{}", e.render(false)));
        includes(&schema.groups[0], "g.xml", language).unwrap().map(|i| i.text)
    }

    #[test]
    fn dimensions_are_what_the_program_calls_them() {
        let body = r#"<var name="n" type="integer" gwrite="grid->n"/><var name="mpsi+1" type="integer"/>
            <attribute name="height" type="integer" value="7"/>
            <var name="a" type="double" dimensions="it,n,2*n+1,height,mpsi+1" gwrite="field"/>
            <var name="b" type="real" dimensions="n%3"/>"#;
        let [write, _] = of(body, Language::C);
        assert!(write.contains("+ (uint64_t) 8 * (grid->n) * ((2 * (grid->n)) + 1) * 7 * (mpsi+1)\n"), "{write}");
        assert!(write.contains("+ (uint64_t) 4 * ((grid->n) % 3);\n"), "{write}");
        assert!(write.contains("adios_write (adios_handle, \"n\", &grid->n);\n"), "{write}");
        assert!(write.contains("adios_write (adios_handle, \"mpsi+1\", &(int){mpsi+1});\n"), "{write}");
        let [write, _] = of(&body.replace("-&gt;", "%").replace("grid->n", "grid%n"), Language::Fortran);
        assert!(write.contains("+ 4_8 * (mod((grid%n), 3))\n"), "{write}");
    }

    #[test]
    fn the_documents_own_text_comes_where_it_stands() {
        let body = r#"<var name="n" type="integer"/><gwrite src="if (n &gt; 0) {"/>
            <global-bounds dimensions="9" offsets="0"><var name="a" type="real" dimensions="n"/>
            <gwrite src="} else {"/><var name="b" type="real" dimensions="n"/></global-bounds><gwrite src="}"/>"#;
        let [write, read] = of(body, Language::C);
        let tail: Vec<&str> = write.lines().skip_while(|l| !l.contains("\"n\"")).collect();
        assert_eq!(
            tail,
            [
                "adios_write (adios_handle, \"n\", &n);",
                "if (n > 0) {",
                "    adios_write (adios_handle, \"a\", a);",
                "} else {",
                "    adios_write (adios_handle, \"b\", b);",
                "}",
            ]
        );
        assert!(!read.contains("if (n"), "{read}");
    }

    #[test]
    fn what_is_not_written_or_read_is_left_out() {
        let body = r#"<var name="n" type="integer" gwrite="3*m" read="no"/><var name="note" type="string" write="no"/>
            <var name="old" type="real" read="no"/><var name="a" type="real" dimensions="n"/>"#;
        let [write, read] = of(body, Language::C);
        assert!(!write.contains("note") && write.contains("\"old\""), "{write}");
        assert!(!read.contains("old"), "{read}");
        // Where it is needed for dimensions, the program's own value counts.
        assert!(read.contains("adios_write (adios_handle, \"n\", &(int){3*m});\n"), "{read}");
        assert!(read.contains("adios_buf_size = sizeof (note);\n"), "{read}");
    }

    #[test]
    fn names_are_said_in_full() {
        let body = r#"<var name="x" path="/a" type="real"/><var name="x" path="/b" type="real" gwrite="y"/>"#;
        let [write, _] = of(body, Language::C);
        assert!(
            write.contains("(adios_handle, \"/a/x\", &x)") && write.contains("(adios_handle, \"/b/x\", &y)"),
            "{write}"
        );
    }

    #[test]
    fn lines_of_fortran_are_as_short_as_it_wants_them_and_sums_in_parts() {
        let long = format!("some%thing({})", "index_of_it + ".repeat(30) + "1");
        let mut body = format!(r#"<var name="n" type="integer" gwrite="{long}"/>"#);
        for i in 0..100 {
            body += &format!(r#"<var name="v{i}" type="double" dimensions="n"/>"#);
        }
        for text in of(&body, Language::Fortran) {
            assert!(text.lines().all(|l| l.len() <= LONGEST), "{text}");
            let joined = text.replace("&\n    &", "");
            assert!(joined.contains(&format!("(adios_handle, \"n\", {long}, ")), "{joined}");
            let statements = joined.lines().filter(|l| l.starts_with("adios_groupsize = ")).count();
            assert!(statements == 4 || text.contains("adios_read"), "{text}");
        }
    }

    #[test]
    fn what_has_an_address_is_told_from_what_has_none() {
        for place in ["x", "*p", "s->a.b[i+1]", "grid[f(2)]"] {
            assert!(has_place(place), "{place}");
        }
        for value in ["2*n", "n+1", "f(x)", "3", "(int) x", "a - b", "a>b"] {
            assert!(!has_place(value), "{value}");
        }
    }
}
