//! What of a file is copied, and in what form.

use crate::cast;
use crate::pattern::Pattern;
use crate::region::Region;
use thalweg_schema::Statistics;
use thalweg_types::{ElementType, Error, ErrorKind, Result};

/// What is copied. Of entries with patterns, the last one that fits a name counts. By default everything, as it is.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Variables; none: all.
    pub variables: Vec<Pattern>,
    /// Variables that are left out.
    pub without: Vec<Pattern>,
    /// Steps.
    pub steps: Steps,
    /// Parts of global arrays.
    pub regions: Vec<(Pattern, Region)>,
    /// Other number types.
    pub elements: Vec<(Pattern, ElementType)>,
    /// Other transforms, as `zlib:5`; `none` for none.
    pub transforms: Vec<(Pattern, String)>,
    /// Other levels of statistics.
    pub statistics: Vec<(Pattern, Statistics)>,
    /// How arrays are divided into blocks.
    pub blocks: Blocks,
    /// The group whose outputs are copied; all if there is none.
    pub group: Option<String>,
}

/// Every *n*-th step of a range. Steps count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// First step.
    pub first: u64,
    /// Step behind the last one.
    pub end: u64,
    /// Distance, 1 or more.
    pub stride: u64,
}

/// How arrays are divided into blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Blocks {
    /// As in the source.
    #[default]
    AsWritten,
    /// As few as the memory allows: one for each global array, if it is not larger than a share of the memory.
    Merged,
    /// Global arrays of as many dimensions into so many blocks along each of them, slowest first; other arrays as in the source.
    Grid(Vec<u64>),
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { first: 0, end: u64::MAX, stride: 1 }
    }
}

impl Blocks {
    /// Reads `written`, `merged`, or numbers as `4x2`.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else.
    pub fn parse(text: &str) -> Result<Blocks> {
        match text {
            "written" => Ok(Blocks::AsWritten),
            "merged" => Ok(Blocks::Merged),
            grid => {
                let numbers: Option<Vec<u64>> =
                    grid.split('x').map(|part| part.parse().ok().filter(|number| *number > 0)).collect();
                numbers.map(Blocks::Grid).ok_or_else(|| {
                    let what = format!("blocks {text}: write 'written', 'merged', or numbers from 1 as '4x2'");
                    Error::new(ErrorKind::InvalidArgument, what)
                })
            }
        }
    }
}

impl Steps {
    /// Reads `a:b`, `a:b:s` or one step; either end may be left out.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else.
    pub fn parse(text: &str) -> Result<Steps> {
        let refused = || {
            let what = format!("'{text}' names no steps; write 'first:end', 'first:end:stride' or one number from 0");
            Error::new(ErrorKind::InvalidArgument, what)
        };
        let number = |part: &str, default: u64| match part.trim() {
            "" => Ok(default),
            part => part.parse::<u64>().map_err(|_| refused()),
        };
        let parts: Vec<&str> = text.split(':').collect();
        let steps = match parts[..] {
            [one] if !one.trim().is_empty() => {
                let first = number(one, 0)?;
                Steps { first, end: first.saturating_add(1), stride: 1 }
            }
            [first, end] => Steps { first: number(first, 0)?, end: number(end, u64::MAX)?, stride: 1 },
            [first, end, stride] => {
                Steps { first: number(first, 0)?, end: number(end, u64::MAX)?, stride: number(stride, 1)? }
            }
            _ => return Err(refused()),
        };
        if steps.stride == 0 { Err(refused()) } else { Ok(steps) }
    }

    /// Whether a step is one of them.
    pub fn contain(&self, step: u64) -> bool {
        (self.first..self.end).contains(&step) && (step - self.first).is_multiple_of(self.stride)
    }
}

impl Choice {
    /// Whether a variable is copied.
    pub fn has(&self, name: &str) -> bool {
        (self.variables.is_empty() || self.variables.iter().any(|pattern| pattern.fits(name)))
            && !self.without.iter().any(|pattern| pattern.fits(name))
    }

    /// The part of a variable that is copied; `None` for all of it.
    pub fn region(&self, name: &str) -> Option<&Region> {
        last(&self.regions, name)
    }

    /// The number type that a variable gets; `None` for its own.
    pub fn element(&self, name: &str) -> Option<ElementType> {
        last(&self.elements, name).copied()
    }

    /// The type that the values of a variable, of type `own`, get. Of a pattern, variables without such a cast are not meant.
    ///
    /// # Errors
    /// `InvalidArgument` for a variable that is asked for by its name, if there is no such cast.
    pub fn becomes(&self, name: &str, own: ElementType) -> Result<ElementType> {
        match self.element(name) {
            Some(other) if cast::is_possible(own, other) => Ok(other),
            Some(other) if self.elements.iter().any(|(pattern, _)| pattern.given() == name) => {
                Err(Error::new(ErrorKind::InvalidArgument, format!("{own} values cannot become {other}")))
            }
            _ => Ok(own),
        }
    }

    /// The transform that a variable gets; `None` for its own.
    pub fn transform(&self, name: &str) -> Option<&str> {
        last(&self.transforms, name).map(String::as_str)
    }

    /// The level of statistics that a variable gets; `None` for its own.
    pub fn statistics(&self, name: &str) -> Option<Statistics> {
        last(&self.statistics, name).copied()
    }

    /// The patterns that fit none of these names: most likely mistakes.
    pub fn unknown<'a>(&'a self, names: &[&str]) -> Vec<&'a str> {
        let patterns =
            self.variables.iter().chain(&self.without).chain(self.regions.iter().map(|(pattern, _)| pattern));
        let patterns = patterns.chain(self.elements.iter().map(|(pattern, _)| pattern));
        let patterns = patterns.chain(self.transforms.iter().map(|(pattern, _)| pattern));
        let patterns = patterns.chain(self.statistics.iter().map(|(pattern, _)| pattern));
        patterns.filter(|pattern| !names.iter().any(|name| pattern.fits(name))).map(Pattern::given).collect()
    }
}

/// Checks the text of a transform.
///
/// # Errors
/// `Config` for an unknown transform or parameter.
pub fn check_transform(text: &str) -> Result<()> {
    thalweg_transform::Spec::parse(text).map(drop)
}

fn last<'a, T>(entries: &'a [(Pattern, T)], name: &str) -> Option<&'a T> {
    entries.iter().rev().find(|(pattern, _)| pattern.fits(name)).map(|(_, entry)| entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_a_range_with_a_stride_or_one() {
        let steps = |text: &str| {
            let steps = Steps::parse(text).unwrap();
            (0..12).filter(|step| steps.contain(*step)).collect::<Vec<u64>>()
        };
        assert_eq!(steps("3"), [3]);
        assert_eq!(steps("2:5"), [2, 3, 4]);
        assert_eq!(steps("1::4"), [1, 5, 9]);
        assert_eq!(steps(":4:"), [0, 1, 2, 3]);
        for wrong in ["", "a", "1:2:0", "1:2:3:4", "-1"] {
            assert_eq!(Steps::parse(wrong).unwrap_err().kind(), ErrorKind::InvalidArgument, "{wrong}");
        }
    }

    #[test]
    fn the_last_entry_that_fits_a_name_counts_and_what_fits_nothing_is_found() {
        let pattern = |text: &str| Pattern::parse(text).unwrap();
        let choice = Choice {
            variables: vec![pattern("u*")],
            without: vec![pattern("u2")],
            transforms: vec![
                (pattern("*"), "zlib".into()),
                (pattern("u1"), "none".into()),
                (pattern("w"), "bzip2".into()),
            ],
            ..Choice::default()
        };
        assert!(choice.has("u1") && !choice.has("u2") && !choice.has("v"));
        assert_eq!((choice.transform("u1"), choice.transform("u3")), (Some("none"), Some("zlib")));
        assert_eq!(choice.unknown(&["u1", "u2", "v"]), ["w"]);
        assert!(Choice::default().has("anything"));
    }
}
