//! `thalweg plot`: values as lines and heat maps, in the terminal or as a picture.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`content`] | from slices and statistics to what is drawn |
//! | [`shown`] | a picture on the terminal |

pub mod content;
pub mod shown;

use crate::arguments::Plot as Arguments;
use crate::converter::{replace, unwritten};
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, complain, plain};
use content::Drawn;
use std::io::Write;
use std::path::Path;
use thalweg_report::plot::{Plot, raster, vector};
use thalweg_report::text::count;

/// Pixels of a picture.
const PIXELS: (usize, usize) = (900, 540);

/// A form of pictures.
#[derive(Clone, Copy)]
enum Form {
    Svg,
    Png,
}

impl Form {
    fn of(path: &Path) -> Result<Form, Failure> {
        match path.extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Form::Svg),
            Some("png") => Ok(Form::Png),
            _ => Err(Failure::Usage(format!("'{}': pictures end in .svg or .png", path.display()))),
        }
    }
}

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    if let (Some(min), Some(max)) = (arguments.min, arguments.max)
        && min >= max
    {
        return Err(Failure::Usage(format!("--min {min} is not below --max {max}")));
    }
    if arguments.log && [arguments.min, arguments.max].iter().flatten().any(|end| *end <= 0.0) {
        return Err(Failure::Usage("a logarithmic axis has ends above 0".into()));
    }
    let form = arguments.output.as_deref().map(Form::of).transpose()?;
    let wanted = content::parse_all(&arguments.slice)?;
    let reader = file::open(&arguments.file, Some("reading"))?;
    let Drawn { content, names, x_name, y_name } = content::find(&reader, &wanted, arguments.over.as_deref())?;
    let shown =
        arguments.file.file_name().map_or_else(|| arguments.file.display().to_string(), |n| n.display().to_string());
    let title = arguments.title.clone().unwrap_or_else(|| format!("{shown}: {}", names.join(", ")));
    let plot = Plot {
        title: plain(&title),
        x_name: plain(&x_name),
        y_name: plain(&y_name),
        content,
        log: arguments.log,
        range: [arguments.min, arguments.max],
    };
    tell_left_out(&plot);
    let nothing = || {
        let above = if arguments.log { "finite and above 0" } else { "finite" };
        Failure::Absent(format!("nothing to draw: no value is {above}"))
    };
    match (&arguments.output, form) {
        (Some(target), Some(form)) => {
            file::not_itself(&arguments.file, target, "its picture")?;
            let (width, height) = arguments.size.unwrap_or(PIXELS);
            let picture = match form {
                Form::Svg => vector::picture(&plot, [width, height]).map(String::into_bytes),
                Form::Png => raster::picture(&plot, [width, height]),
            };
            let picture = picture.ok_or_else(nothing)?;
            replace(target, |made| made.write_all(&picture).map_err(|e| unwritten(target, e).into()))?;
            writeln!(out, "{}: {}, {width} x {height}", plain(&target.display().to_string()), plot.title)?;
        }
        _ => {
            if !shown::print(&plot, arguments.size, out)? {
                return Err(nothing());
            }
        }
    }
    Ok(Outcome::Done)
}

fn tell_left_out(plot: &Plot) {
    let (out, all) = plot.left_out();
    if out > 0 && out < all {
        let why = if plot.log { "not finite, or not above 0" } else { "not finite" };
        complain("thalweg", &format!("{out} of {} not drawn: {why}", count(all as u64, "value")));
    }
}
