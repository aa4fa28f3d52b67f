//! A picture on the terminal, or as plain text where there is none.

use crate::outcome::Failure;
use crate::terminal::{ASIDE, Terminal};
use anstyle::{Ansi256Color, AnsiColor, Color, RgbColor, Style};
use std::io::Write;
use thalweg_report::plot::Plot;
use thalweg_report::plot::cells::{Cell, Ink, Look, picture};

/// Columns and lines where there is no terminal.
const PLAIN: (usize, usize) = (80, 24);
/// Lines that a picture takes by itself at most.
const LINES: usize = 30;

const OF_LINES: [AnsiColor; 7] = [
    AnsiColor::BrightBlue,
    AnsiColor::Yellow,
    AnsiColor::Green,
    AnsiColor::Magenta,
    AnsiColor::Red,
    AnsiColor::BrightCyan,
    AnsiColor::White,
];

/// Prints a picture; false if there is nothing to draw.
///
/// - `size`: columns and lines, if they are given.
pub fn print(plot: &Plot, size: Option<(usize, usize)>, out: &mut Terminal) -> Result<bool, Failure> {
    let usual = (
        out.width().unwrap_or(PLAIN.0),
        // The prompt needs a line, too.
        out.height().map_or(PLAIN.1, |lines| lines.saturating_sub(2).clamp(8, LINES)),
    );
    let (columns, lines) = size.unwrap_or(usual);
    let Some(page) = picture(plot, Look { columns, lines, colors: out.color() }) else { return Ok(false) };
    let exact = std::env::var("COLORTERM").is_ok_and(|v| v == "truecolor" || v == "24bit");
    for line in &page {
        for run in line.chunk_by(|a, b| (a.ink, a.ground) == (b.ink, b.ground)) {
            let text: String = run.iter().map(|cell| cell.symbol).collect();
            out.styled(style(&run[0], exact), &text)?;
        }
        writeln!(out)?;
    }
    Ok(true)
}

fn style(cell: &Cell, exact: bool) -> Style {
    let shade = |color| shade(color, exact);
    let ink = match cell.ink {
        Ink::Text => Style::new(),
        Ink::Aside => ASIDE,
        Ink::Line(number) => Style::new().fg_color(Some(OF_LINES[number % OF_LINES.len()].into())),
        Ink::Shade(color) => Style::new().fg_color(Some(shade(color))),
    };
    ink.bg_color(cell.ground.map(shade))
}

/// - `exact`: the terminal shows all colours; otherwise the nearest in the cube of 6 by 6 by 6.
fn shade([r, g, b]: [u8; 3], exact: bool) -> Color {
    if exact {
        return RgbColor(r, g, b).into();
    }
    let [r, g, b] = [r, g, b].map(|part| ((u16::from(part) * 5 + 127) / 255) as u8);
    Ansi256Color(16 + 36 * r + 6 * g + b).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_the_cube_are_the_nearest() {
        assert_eq!(shade([0, 0, 0], false), Ansi256Color(16).into());
        assert_eq!(shade([255, 255, 255], false), Ansi256Color(231).into());
        assert_eq!(shade([255, 102, 0], false), Ansi256Color(208).into());
        assert_eq!(shade([1, 2, 3], true), RgbColor(1, 2, 3).into());
    }
}
