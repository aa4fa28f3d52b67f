//! Slices: `var[step, a:b, :]`, read as Python reads them.
//!
//! | written | means |
//! |---|---|
//! | `v` | everything: all steps, all elements |
//! | `v[3]` | step 3; missing dimensions are taken whole |
//! | `v[-1]` | the last step; negative numbers count from the end |
//! | `v[2:5, 0, :]` | steps 2, 3 and 4; index 0 of the first dimension; all of the second |
//! | `v[::10, 1:9:2]` | every tenth step; indices 1, 3, 5 and 7 |
//! | `w[3, 1]` | of a local array: step 3, block 1 |
//!
//! A single index removes its dimension, a range keeps it. A range is clipped to the extent; a single index out of range is an error.

use std::fmt;

/// One entry between commas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// One index.
    One(i64),
    /// `a:b:s`, each may be left out: every `s`-th index, 1 or more, from `a` to before `b`.
    Range(Option<i64>, Option<i64>, u64),
}

/// A variable and the entries of its slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The name as written.
    pub name: String,
    /// Step first, then dimensions.
    pub picks: Vec<Pick>,
}

/// A pick applied to an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picked {
    /// First index.
    pub start: u64,
    /// Distance of indices, 1 or more.
    pub stride: u64,
    /// Number of indices.
    pub count: u64,
    /// Whether the dimension stays.
    pub keeps: bool,
}

impl Slice {
    /// Reads a slice.
    ///
    /// # Errors
    /// A sentence that names the part that is none.
    pub fn parse(text: &str) -> Result<Slice, String> {
        let whole = |name: &str| Slice { name: name.to_string(), picks: Vec::new() };
        let Some(inside) = text.strip_suffix(']') else {
            return match text.rfind('[') {
                Some(_) => Err(format!("'{text}' opens a bracket that is not closed; write 'var[step, a:b, :]'")),
                None if text.is_empty() => Err("an empty name".to_string()),
                None => Ok(whole(text)),
            };
        };
        let Some((name, picks)) = inside.rsplit_once('[') else {
            return Err(format!("'{text}' closes a bracket that was not opened; write 'var[step, a:b, :]'"));
        };
        if name.trim().is_empty() {
            return Err(format!("'{text}' names no variable in front of the bracket"));
        }
        let picks = picks.split(',').map(|p| Pick::parse(p.trim()).map_err(|e| format!("'{text}': {e}")));
        Ok(Slice { name: name.trim_end().to_string(), picks: picks.collect::<Result<_, _>>()? })
    }
}

impl Pick {
    /// `:`
    pub const ALL: Pick = Pick::Range(None, None, 1);

    fn parse(text: &str) -> Result<Pick, String> {
        let number = |s: &str| s.trim().parse::<i64>().map_err(|_| format!("'{}' is no whole number", s.trim()));
        let end = |s: &str| if s.trim().is_empty() { Ok(None) } else { number(s).map(Some) };
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            [""] => Err("nothing between two commas; write ':' for a whole dimension".to_string()),
            [one] => number(one).map(Pick::One),
            [a, b] => Ok(Pick::Range(end(a)?, end(b)?, 1)),
            [a, b, stride] => match end(stride)?.unwrap_or(1) {
                stride @ 1.. => Ok(Pick::Range(end(a)?, end(b)?, stride as u64)),
                stride => Err(format!("'{text}' has the stride {stride}; strides are 1 or more")),
            },
            _ => Err(format!("'{text}' has too many colons; ranges are 'a:b' or 'a:b:stride'")),
        }
    }

    /// The indices meant in a dimension of this extent; `None` where a single index is not there.
    pub fn of(self, extent: u64) -> Option<Picked> {
        let extent_wide = i128::from(extent);
        let from_end = |i: i64| if i < 0 { i128::from(i) + extent_wide } else { i128::from(i) };
        match self {
            Pick::One(i) => {
                let at = from_end(i);
                (0..extent_wide).contains(&at).then_some(Picked { start: at as u64, stride: 1, count: 1, keeps: false })
            }
            Pick::Range(a, b, stride) => {
                let start = a.map_or(0, from_end).clamp(0, extent_wide);
                let end = b.map_or(extent_wide, from_end).clamp(start, extent_wide);
                let count = ((end - start) as u64).div_ceil(stride);
                Some(Picked { start: start as u64, stride, count, keeps: true })
            }
        }
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pick::One(i) => write!(f, "{i}"),
            Pick::Range(a, b, stride) => {
                let end = |e: &Option<i64>| e.map(|e| e.to_string()).unwrap_or_default();
                write!(f, "{}:{}", end(a), end(b))?;
                if *stride == 1 { Ok(()) } else { write!(f, ":{stride}") }
            }
        }
    }
}

impl Picked {
    /// Whether it contains an index.
    pub fn contains(&self, index: u64) -> bool {
        let from = index.checked_sub(self.start);
        from.is_some_and(|from| from % self.stride == 0 && from / self.stride < self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(text: &str) -> Vec<Pick> {
        Slice::parse(text).unwrap().picks
    }

    #[test]
    fn slices_read_as_in_python() {
        assert_eq!(Slice::parse("/data/v").unwrap(), Slice { name: "/data/v".into(), picks: vec![] });
        assert_eq!(
            picks("v[-1, 2:5 , :, :-1,3:]"),
            [
                Pick::One(-1),
                Pick::Range(Some(2), Some(5), 1),
                Pick::ALL,
                Pick::Range(None, Some(-1), 1),
                Pick::Range(Some(3), None, 1)
            ]
        );
        assert_eq!(
            picks("v[::10, 1:9:2,:-1:]"),
            [Pick::Range(None, None, 10), Pick::Range(Some(1), Some(9), 2), Pick::Range(None, Some(-1), 1)]
        );
        assert_eq!(picks("v[::10, 1:9:2]").iter().map(Pick::to_string).collect::<Vec<_>>(), ["::10", "1:9:2"]);
        assert_eq!(
            Slice::parse("odd[name][0]").unwrap(),
            Slice { name: "odd[name]".into(), picks: vec![Pick::One(0)] }
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("v[1", "not closed"),
            ("v1]", "not opened"),
            ("[1]", "no variable"),
            ("v[1,,2]", "between two commas"),
            ("v[]", "between two commas"),
            ("v[a]", "'a' is no whole number"),
            ("v[1.5]", "'1.5' is no whole number"),
            ("v[0:9:0]", "the stride 0"),
            ("v[9:0:-1]", "the stride -1"),
            ("v[0:9:2:1]", "too many colons"),
            ("v[99999999999999999999]", "no whole number"),
            ("", "empty name"),
        ] {
            let error = Slice::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn ranges_are_cut_and_numbers_must_be_there() {
        let kept = |start, count| Some(Picked { start, stride: 1, count, keeps: true });
        assert_eq!(Pick::ALL.of(4), kept(0, 4));
        assert_eq!(Pick::Range(Some(-3), Some(99), 1).of(4), kept(1, 3));
        assert_eq!(Pick::Range(Some(3), Some(1), 1).of(4), kept(3, 0));
        assert_eq!(Pick::Range(Some(i64::MIN), Some(i64::MAX), 1).of(9), kept(0, 9));
        assert_eq!(Pick::ALL.of(u64::MAX), kept(0, u64::MAX));
        assert_eq!(Pick::One(-1).of(4), Some(Picked { start: 3, stride: 1, count: 1, keeps: false }));
        assert_eq!(Pick::One(4).of(4), None);
        assert_eq!(Pick::One(-5).of(4), None);
        assert_eq!(Pick::ALL.of(0), kept(0, 0));
        let strided = Pick::Range(Some(1), Some(-1), 3).of(9).unwrap();
        assert_eq!(strided, Picked { start: 1, stride: 3, count: 3, keeps: true });
        assert_eq!((0..12).filter(|i| strided.contains(*i)).collect::<Vec<_>>(), [1, 4, 7]);
        assert_eq!(
            Pick::Range(None, None, u64::MAX).of(9),
            Some(Picked { start: 0, stride: u64::MAX, count: 1, keeps: true })
        );
    }
}
