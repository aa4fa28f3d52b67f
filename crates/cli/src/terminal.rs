//! Where a command prints: standard output, with colours and width on a terminal, or a file.

use anstyle::{AnsiColor, Style};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use thalweg_types::printable::{printable, printable_lines};

/// Where a command prints.
pub struct Terminal {
    out: BufWriter<Box<dyn Write>>,
    color: bool,
    width: Option<usize>,
    height: Option<usize>,
}

fn colors_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

impl Terminal {
    /// Standard output.
    pub fn stdout() -> Terminal {
        let out = io::stdout();
        let there = out.is_terminal();
        let size = if there { terminal_size::terminal_size() } else { None };
        let (width, height) = (size.map(|(w, _)| usize::from(w.0).max(20)), size.map(|(_, h)| usize::from(h.0)));
        let out: Box<dyn Write> = Box::new(out.lock());
        Terminal { out: BufWriter::with_capacity(1 << 16, out), color: there && colors_wanted(), width, height }
    }

    /// A file: plain text.
    pub fn file(file: File) -> Terminal {
        Terminal { out: BufWriter::with_capacity(1 << 16, Box::new(file)), color: false, width: None, height: None }
    }

    /// Whether colours are used.
    pub fn color(&self) -> bool {
        self.color
    }

    /// Columns of the terminal; `None` where it is none.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// Lines of the terminal; `None` where it is none.
    pub fn height(&self) -> Option<usize> {
        self.height
    }

    /// Prints a line, safe to print as a whole: [`thalweg_types::printable`]. For lines without styles.
    pub fn line(&mut self, text: std::fmt::Arguments<'_>) -> io::Result<()> {
        writeln!(self.out, "{}", plain(&text.to_string()))
    }

    /// Prints text in a style, without it where there are no colours.
    pub fn styled(&mut self, style: Style, text: &str) -> io::Result<()> {
        if self.color && !text.trim().is_empty() {
            write!(self.out, "{style}{text}{style:#}")
        } else {
            self.out.write_all(text.as_bytes())
        }
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Headings.
pub const HEADING: Style = Style::new().bold();
/// Types and places, beside names.
pub const ASIDE: Style = AnsiColor::Cyan.on_default();
/// Everything is well.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Something is wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// Prints a line on standard error: `thalweg: ...`, the word in front in colour on a terminal.
pub fn complain(word: &str, what: &str) {
    let style = if io::stderr().is_terminal() && colors_wanted() { BAD } else { Style::new() };
    // Without standard error the message is dropped.
    let _ = writeln!(io::stderr().lock(), "{style}{word}{style:#}: {}", printable_lines(what));
}

/// Text safe to print on one line: [`thalweg_types::printable`].
pub fn plain(text: &str) -> String {
    printable(text).into_owned()
}

/// A text between double quotes, on one line.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", plain(&text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Pads to a number of characters, text to the left.
pub fn left(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_file_steers_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(quoted("say \"hi\"\n"), "\"say \\\"hi\\\"\\n\"");
    }
}
