//! Units as texts, and what they are in the SI: `V/m`, `kg m-3`, `W m**-2`, `keV`, `1e-6 s`. Pure.
//!
//! | part | form |
//! |---|---|
//! | factors | numbers and units between blanks, `*`, `.` or `·`; behind `/`, one factor or a pair of parentheses divides |
//! | powers | `m2`, `m^2`, `m**2`, `s-1`, `s^-1` |
//! | units | those of the SI with their prefixes, and a few others by their symbols |
//!
//! Units with a zero of their own, as degrees Celsius, are none: a factor does not convert them.
//!
//! Source: the symbols of the SI brochure (BIPM, 2019); the forms of UDUNITS.

/// Exponents of length, mass, time, electric current, temperature, amount of substance, luminous intensity.
pub type Dimension = [f64; 7];

/// A unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// A value in this unit times this is one in the SI's.
    pub si: f64,
    /// What it measures.
    pub dimension: Dimension,
}

/// Units: symbol, whether it takes prefixes, value in the SI, exponents.
const UNITS: &[(&str, bool, f64, [i8; 7])] = &[
    ("m", true, 1.0, [1, 0, 0, 0, 0, 0, 0]),
    ("g", true, 1e-3, [0, 1, 0, 0, 0, 0, 0]),
    ("s", true, 1.0, [0, 0, 1, 0, 0, 0, 0]),
    ("A", true, 1.0, [0, 0, 0, 1, 0, 0, 0]),
    ("K", true, 1.0, [0, 0, 0, 0, 1, 0, 0]),
    ("mol", true, 1.0, [0, 0, 0, 0, 0, 1, 0]),
    ("cd", true, 1.0, [0, 0, 0, 0, 0, 0, 1]),
    ("rad", true, 1.0, [0; 7]),
    ("sr", true, 1.0, [0; 7]),
    ("Hz", true, 1.0, [0, 0, -1, 0, 0, 0, 0]),
    ("N", true, 1.0, [1, 1, -2, 0, 0, 0, 0]),
    ("Pa", true, 1.0, [-1, 1, -2, 0, 0, 0, 0]),
    ("J", true, 1.0, [2, 1, -2, 0, 0, 0, 0]),
    ("W", true, 1.0, [2, 1, -3, 0, 0, 0, 0]),
    ("C", true, 1.0, [0, 0, 1, 1, 0, 0, 0]),
    ("V", true, 1.0, [2, 1, -3, -1, 0, 0, 0]),
    ("F", true, 1.0, [-2, -1, 4, 2, 0, 0, 0]),
    ("Ω", true, 1.0, [2, 1, -3, -2, 0, 0, 0]),
    ("ohm", true, 1.0, [2, 1, -3, -2, 0, 0, 0]),
    ("S", true, 1.0, [-2, -1, 3, 2, 0, 0, 0]),
    ("Wb", true, 1.0, [2, 1, -2, -1, 0, 0, 0]),
    ("T", true, 1.0, [0, 1, -2, -1, 0, 0, 0]),
    ("H", true, 1.0, [2, 1, -2, -2, 0, 0, 0]),
    ("lm", true, 1.0, [0, 0, 0, 0, 0, 0, 1]),
    ("lx", true, 1.0, [-2, 0, 0, 0, 0, 0, 1]),
    ("Bq", true, 1.0, [0, 0, -1, 0, 0, 0, 0]),
    ("Gy", true, 1.0, [2, 0, -2, 0, 0, 0, 0]),
    ("Sv", true, 1.0, [2, 0, -2, 0, 0, 0, 0]),
    ("kat", true, 1.0, [0, 0, -1, 0, 0, 1, 0]),
    ("eV", true, 1.602_176_634e-19, [2, 1, -2, 0, 0, 0, 0]),
    ("bar", true, 1e5, [-1, 1, -2, 0, 0, 0, 0]),
    ("atm", false, 101_325.0, [-1, 1, -2, 0, 0, 0, 0]),
    ("l", true, 1e-3, [3, 0, 0, 0, 0, 0, 0]),
    ("L", true, 1e-3, [3, 0, 0, 0, 0, 0, 0]),
    ("t", false, 1e3, [0, 1, 0, 0, 0, 0, 0]),
    ("min", false, 60.0, [0, 0, 1, 0, 0, 0, 0]),
    ("h", false, 3600.0, [0, 0, 1, 0, 0, 0, 0]),
    ("d", false, 86_400.0, [0, 0, 1, 0, 0, 0, 0]),
    ("deg", false, std::f64::consts::PI / 180.0, [0; 7]),
    ("%", false, 0.01, [0; 7]),
];

/// Prefixes of the SI; `da` before `d`.
const PREFIXES: &[(&str, f64)] = &[
    ("Y", 1e24),
    ("Z", 1e21),
    ("E", 1e18),
    ("P", 1e15),
    ("T", 1e12),
    ("G", 1e9),
    ("M", 1e6),
    ("k", 1e3),
    ("h", 1e2),
    ("da", 1e1),
    ("d", 1e-1),
    ("c", 1e-2),
    ("m", 1e-3),
    ("u", 1e-6),
    ("µ", 1e-6),
    ("μ", 1e-6),
    ("n", 1e-9),
    ("p", 1e-12),
    ("f", 1e-15),
    ("a", 1e-18),
    ("z", 1e-21),
    ("y", 1e-24),
];

/// Deepest parentheses.
const DEEPEST: usize = 16;

impl Unit {
    /// No unit.
    pub const ONE: Unit = Unit { si: 1.0, dimension: [0.0; 7] };
    /// Exponents of a time.
    pub const TIME: Dimension = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    /// Exponents of a length.
    pub const LENGTH: Dimension = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];

    /// The unit that a text is; `None` for one that is not understood.
    pub fn parse(text: &str) -> Option<Unit> {
        let mut rest = text.trim();
        let unit = product(&mut rest, 0)?;
        (rest.is_empty() && unit.si.is_finite() && unit.si > 0.0).then_some(unit)
    }

    fn times(self, other: Unit, power: f64) -> Unit {
        let mut dimension = self.dimension;
        dimension.iter_mut().zip(other.dimension).for_each(|(own, other)| *own += other * power);
        Unit { si: self.si * other.si.powf(power), dimension }
    }
}

/// Factors up to the end, or to a closing parenthesis.
fn product(rest: &mut &str, depth: usize) -> Option<Unit> {
    let mut all = Unit::ONE;
    let mut divides = false;
    let mut is_needed = !rest.is_empty();
    while !rest.is_empty() && !rest.starts_with(')') {
        let (factor, power) = factor(rest, depth)?;
        all = all.times(factor, if divides { -power } else { power });
        let before = *rest;
        *rest = rest.trim_start();
        let sign = rest.chars().next().filter(|sign| "*.·/".contains(*sign));
        if let Some(sign) = sign {
            *rest = rest[sign.len_utf8()..].trim_start();
        }
        divides = sign == Some('/');
        is_needed = sign.is_some();
        let is_end = rest.is_empty() || rest.starts_with(')');
        if !is_end && sign.is_none() && before.len() == rest.len() {
            return None;
        }
    }
    (!is_needed).then_some(all)
}

/// One factor and its power.
fn factor(rest: &mut &str, depth: usize) -> Option<(Unit, f64)> {
    let text = *rest;
    if let Some(inner) = text.strip_prefix('(') {
        *rest = inner.trim_start();
        let unit = (depth < DEEPEST).then(|| product(rest, depth + 1))??;
        *rest = rest.strip_prefix(')')?;
        return Some((unit, power(rest)?));
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        // A number: the longest that one is; `1e-6`, `0.5`, `60`.
        let most = text.find(|c: char| !(c.is_ascii_digit() || ".eE+-".contains(c))).unwrap_or(text.len());
        let (length, si) = (1..=most).rev().find_map(|n| {
            let number = text.get(..n)?.strip_suffix('.').map_or(text.get(..n)?, |_| "");
            Some((n, number.parse().ok()?))
        })?;
        *rest = &text[length..];
        return Some((Unit { si, ..Unit::ONE }, power(rest)?));
    }
    let length = text.find(|c: char| !(c.is_alphabetic() || c == '%')).unwrap_or(text.len());
    let unit = symbol(text.get(..length)?)?;
    *rest = &text[length..];
    Some((unit, power(rest)?))
}

/// The power behind a factor: 1 if there is none.
fn power(rest: &mut &str) -> Option<f64> {
    let text = *rest;
    let (digits, is_marked) = match text.strip_prefix("**").or_else(|| text.strip_prefix('^')) {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let sign = usize::from(digits.starts_with(['-', '+']));
    let length = digits[sign..].find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len() - sign);
    if length == 0 {
        return (!is_marked && sign == 0).then_some(1.0);
    }
    let power: f64 = digits[..sign + length].parse().ok()?;
    *rest = &digits[sign + length..];
    (power.abs() <= 32.0).then_some(power)
}

fn symbol(name: &str) -> Option<Unit> {
    let find = |name: &str, prefix: f64| {
        let known = UNITS.iter().find(|(symbol, takes, ..)| *symbol == name && (prefix == 1.0 || *takes));
        known.map(|(_, _, si, exponents)| Unit { si: si * prefix, dimension: exponents.map(f64::from) })
    };
    let with_prefix = || PREFIXES.iter().find_map(|(prefix, value)| find(name.strip_prefix(prefix)?, *value));
    find(name, 1.0).or_else(with_prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(f64, [i8; 7])> {
        let unit = Unit::parse(text)?;
        Some((unit.si, unit.dimension.map(|exponent| exponent as i8)))
    }

    #[test]
    fn texts_of_units_are_factors_and_exponents() {
        for (text, si, exponents) in [
            ("", 1.0, [0; 7]),
            ("1", 1.0, [0; 7]),
            ("m", 1.0, [1, 0, 0, 0, 0, 0, 0]),
            ("kg", 1.0, [0, 1, 0, 0, 0, 0, 0]),
            ("V/m", 1.0, [1, 1, -3, -1, 0, 0, 0]),
            ("kg m-3", 1.0, [-3, 1, 0, 0, 0, 0, 0]),
            ("kg.m^-3", 1.0, [-3, 1, 0, 0, 0, 0, 0]),
            ("W m**-2", 1.0, [0, 1, -3, 0, 0, 0, 0]),
            ("J/(kg K)", 1.0, [2, 0, -2, 0, -1, 0, 0]),
            ("m / s2", 1.0, [1, 0, -2, 0, 0, 0, 0]),
            ("kg/m s", 1.0, [-1, 1, 1, 0, 0, 0, 0]),
            ("hPa", 1e2, [-1, 1, -2, 0, 0, 0, 0]),
            ("min", 60.0, [0, 0, 1, 0, 0, 0, 0]),
            ("1/s", 1.0, [0, 0, -1, 0, 0, 0, 0]),
            ("60 s", 60.0, [0, 0, 1, 0, 0, 0, 0]),
            ("T", 1.0, [0, 1, -2, -1, 0, 0, 0]),
            ("d", 86_400.0, [0, 0, 1, 0, 0, 0, 0]),
            ("%", 0.01, [0; 7]),
        ] {
            let (own, dimension) = parsed(text).unwrap_or_else(|| panic!("{text}"));
            assert!((own / si - 1.0).abs() < 1e-15, "{text}: {own}");
            assert_eq!(dimension, exponents, "{text}");
        }
        for (text, si) in
            [("cm", 1e-2), ("dam", 10.0), ("µs", 1e-6), ("keV", 1.602_176_634e-16), ("1e-6 s", 1e-6), ("cm3", 1e-6)]
        {
            let own = parsed(text).unwrap_or_else(|| panic!("{text}")).0;
            assert!((own / si - 1.0).abs() < 1e-12, "{text}: {own}");
        }
    }

    #[test]
    fn what_is_no_unit_is_none() {
        for text in [
            "furlong",
            "degC",
            "m/",
            "/s",
            "m//s",
            "(m",
            "m)",
            "m^",
            "m^x",
            "kg m-",
            "m s^99",
            "katm",
            "days since 1970",
            "0 m",
            "..",
            "m..s",
            "1e400",
            "é",
            "m(s)",
        ] {
            assert_eq!(Unit::parse(text), None, "{text}");
        }
        assert_eq!(Unit::parse(&"(".repeat(100_000)), None);
    }
}
