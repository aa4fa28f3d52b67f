//! Predicates on whole steps, as text: the search of `thalweg find`, and its evaluation from characteristics.
//!
//! ```text
//! predicate   = and { ("or" | "||") and }
//! and         = not { ("and" | "&&") not }
//! not         = ("not" | "!") not | "(" predicate ")" | comparison
//! comparison  = term operator term { operator term }        0 < max(v) < 1 means both
//! operator    = "<" | "<=" | ">" | ">=" | "==" | "=" | "!="
//! term        = number | "text" | step | name | function "(" name ")"
//! function    = min | max | mean | std | sum | count | any | attribute
//! ```
//!
//! A plain name, and `any(name)`, refers to the elements: `v > 0.3` is true if v is above 0.3 at some place.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`parse`] | text to [`Predicate`]; mistakes are shown with their position |
//! | [`summary`] | facts about a variable in some blocks, as ranges if values are unknown |
//! | here | the evaluation: no, maybe, yes |

pub mod parse;
pub mod summary;

use crate::number::Number;
use crate::{Answer, Operator};
use summary::{Bounds, Summary};
use thalweg_types::Value;

/// A function of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Function {
    Min,
    Max,
    Mean,
    Std,
    Sum,
    /// Number of finite values.
    Count,
    /// Some element.
    Any,
}

/// Names of functions.
pub const FUNCTIONS: [(&str, Function); 7] = [
    ("min", Function::Min),
    ("max", Function::Max),
    ("mean", Function::Mean),
    ("std", Function::Std),
    ("sum", Function::Sum),
    ("count", Function::Count),
    ("any", Function::Any),
];

/// One side of a comparison.
#[derive(Debug, Clone)]
pub enum Term {
    /// A number.
    Number(Number),
    /// A text.
    Text(Vec<u8>),
    /// The number of the step.
    Step,
    /// Function of the variable with this index in [`Predicate::variables`].
    Of(Function, usize),
    /// The attribute with this index in [`Predicate::attributes`].
    Attribute(usize),
}

#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Any(Vec<Expression>),
    All(Vec<Expression>),
    Not(Box<Expression>),
    Compare(Term, Operator, Term),
}

/// A parsed predicate.
#[derive(Debug, Clone)]
pub struct Predicate {
    pub(crate) root: Expression,
    /// Names of its variables.
    pub variables: Vec<String>,
    /// Names of its attributes.
    pub attributes: Vec<String>,
}

/// Known facts about one step.
pub struct Facts<'a> {
    /// The step.
    pub step: u64,
    /// Per variable of the predicate; `None` if it has no block.
    pub variables: &'a [Option<&'a Summary>],
    /// Per attribute of the predicate, its values.
    pub attributes: &'a [Vec<Value>],
}

/// The value of a term.
enum Meaning<'a> {
    /// No value: no comparison holds.
    Nothing,
    /// One number within these bounds; `sure` if it certainly exists.
    Number { bounds: Bounds, sure: bool },
    /// Elements; the least and the greatest are within these bounds.
    Elements { min: Bounds, max: Bounds, sure: bool },
    /// A text.
    Text(&'a [u8]),
}

impl Predicate {
    /// Evaluates the predicate. A comparison with a missing value does not hold.
    pub fn answer(&self, facts: &Facts<'_>) -> Answer {
        answer(&self.root, facts)
    }

    /// All comparisons, to be checked against the file.
    pub fn comparisons(&self) -> Vec<(&Term, Operator, &Term)> {
        fn collect<'a>(e: &'a Expression, all: &mut Vec<(&'a Term, Operator, &'a Term)>) {
            match e {
                Expression::Any(parts) | Expression::All(parts) => parts.iter().for_each(|p| collect(p, all)),
                Expression::Not(inner) => collect(inner, all),
                Expression::Compare(a, op, b) => all.push((a, *op, b)),
            }
        }
        let mut all = Vec::new();
        collect(&self.root, &mut all);
        all
    }
}

fn answer(expression: &Expression, facts: &Facts<'_>) -> Answer {
    match expression {
        Expression::Any(parts) => parts.iter().map(|p| answer(p, facts)).max().unwrap_or(Answer::No),
        Expression::All(parts) => parts.iter().map(|p| answer(p, facts)).min().unwrap_or(Answer::Yes),
        Expression::Not(inner) => answer(inner, facts).not(),
        // If an attribute has several values, one matching value suffices.
        Expression::Compare(a, op, b) => meanings(a, facts)
            .iter()
            .flat_map(|a| meanings(b, facts).iter().map(|b| compare(a, *op, b)).max())
            .max()
            .unwrap_or(Answer::No),
    }
}

fn meanings<'a>(term: &'a Term, facts: &Facts<'a>) -> Vec<Meaning<'a>> {
    let exactly = |n: Number| Meaning::Number { bounds: Bounds::exactly(n), sure: true };
    match term {
        Term::Number(n) => vec![exactly(*n)],
        Term::Text(t) => vec![Meaning::Text(t)],
        Term::Step => vec![exactly(Number::Whole(i128::from(facts.step)))],
        Term::Attribute(i) => facts.attributes[*i]
            .iter()
            .map(|v| match v {
                Value::String(text) => Meaning::Text(text),
                other => Number::of(other).map_or(Meaning::Nothing, exactly),
            })
            .collect(),
        Term::Of(function, i) => {
            let Some(summary) = facts.variables[*i] else { return vec![Meaning::Nothing] };
            if let Some(texts) = summary.texts() {
                return texts.iter().map(|t| Meaning::Text(t)).collect();
            }
            let sure = summary.count().low.compare(Number::Whole(0)).is_gt();
            let number =
                |bounds: Option<Bounds>| bounds.map_or(Meaning::Nothing, |b| Meaning::Number { bounds: b, sure });
            vec![match function {
                Function::Count => Meaning::Number { bounds: summary.count(), sure: true },
                Function::Min => number(summary.min()),
                Function::Max => number(summary.max()),
                Function::Mean => number(summary.mean()),
                Function::Std => number(summary.std()),
                Function::Sum => number(summary.sum()),
                Function::Any => match (summary.min(), summary.max()) {
                    (Some(min), Some(max)) => Meaning::Elements { min, max, sure },
                    _ => Meaning::Nothing,
                },
            }]
        }
    }
}

fn compare(a: &Meaning<'_>, op: Operator, b: &Meaning<'_>) -> Answer {
    match (a, b) {
        (Meaning::Text(a), Meaning::Text(b)) => Answer::of(op.holds(a.cmp(b)), !op.holds(a.cmp(b))),
        (Meaning::Number { bounds: x, sure: s }, Meaning::Number { bounds: y, sure: t }) => {
            let (yes, no) = between(*x, op, *y);
            Answer::of(yes && *s && *t, no)
        }
        (Meaning::Elements { min, max, sure: s }, Meaning::Number { bounds: y, sure: t }) => {
            let (yes, no) = some_element(*min, *max, op, *y);
            Answer::of(yes && *s && *t, no)
        }
        (Meaning::Number { .. }, Meaning::Elements { .. }) => compare(b, op.turned(), a),
        // Elements of two arrays at the same place: the answer is known only if all pairs match, or none does.
        (Meaning::Elements { min: a, max: b, sure: s }, Meaning::Elements { min: c, max: d, sure: t }) => {
            let (yes, no) = between(Bounds::new(a.low, b.high), op, Bounds::new(c.low, d.high));
            Answer::of(yes && *s && *t, no)
        }
        _ => Answer::No,
    }
}

/// Whether `x op y` holds for all possible values, and whether for none.
pub(crate) fn between(x: Bounds, op: Operator, y: Bounds) -> (bool, bool) {
    let apart = x.high.compare(y.low).is_lt() || x.low.compare(y.high).is_gt();
    let same = x.is_exact() && y.is_exact() && x.low.compare(y.low).is_eq();
    match op {
        Operator::Less | Operator::LessOrEqual => (op.holds(x.high.compare(y.low)), !op.holds(x.low.compare(y.high))),
        Operator::Greater | Operator::GreaterOrEqual => {
            (op.holds(x.low.compare(y.high)), !op.holds(x.high.compare(y.low)))
        }
        Operator::Equal => (same, apart),
        Operator::NotEqual => (apart, same),
    }
}

/// Whether some element certainly matches, and whether certainly none does.
fn some_element(min: Bounds, max: Bounds, op: Operator, y: Bounds) -> (bool, bool) {
    let all = Bounds::new(min.low, max.high);
    let (_, none) = between(all, op, y);
    // The least and the greatest element are elements.
    let (least, _) = between(min, op, y);
    let (greatest, _) = between(max, op, y);
    (least || greatest, none)
}

#[cfg(test)]
mod tests {
    use super::*;
    use summary::BlockFacts;

    fn block(min: f64, max: f64) -> Summary {
        let mut s = Summary::default();
        s.add(&BlockFacts::Known {
            min: Number::Real(min),
            max: Number::Real(max),
            finite: Some(4),
            elements: 4,
            sum: Some(Number::Real(2.0 * (min + max))),
            squares: Some(2.0 * (min * min + max * max)),
        });
        s
    }

    fn ask(text: &str, v: Option<&Summary>) -> Answer {
        let p = parse::parse(text).unwrap();
        let variables = vec![v; p.variables.len()];
        let attributes = vec![vec![Value::String(b"K".to_vec()), Value::I32(7)]; p.attributes.len()];
        p.answer(&Facts { step: 5, variables: &variables, attributes: &attributes })
    }

    #[test]
    fn characteristics_of_blocks_answer_yes_no_or_maybe() {
        let v = block(0.1, 0.5);
        for (text, expected) in [
            ("max(v) > 0.3", Answer::Yes),
            ("max(v) > 0.5", Answer::No),
            ("max(v) >= 0.5", Answer::Yes),
            ("v > 0.3", Answer::Yes),
            ("v > 0.5", Answer::No),
            ("v < 0.1", Answer::No),
            ("v == 0.3", Answer::Maybe),
            ("v == 0.1", Answer::Yes),
            ("v = 0.6", Answer::No),
            ("v != 0.3", Answer::Yes),
            ("0.3 < v", Answer::Yes),
            ("mean(v) == 0.3", Answer::Yes),
            ("std(v) < 0.21 and std(v) > 0.19", Answer::Yes),
            ("sum(v) == 1.2", Answer::Yes),
            ("count(v) == 4", Answer::Yes),
            ("not v > 0.5", Answer::Yes),
            ("not (v == 0.3)", Answer::Maybe),
            ("0 < max(v) < 0.2", Answer::No),
            ("0 < max(v) < 0.6", Answer::Yes),
            ("step >= 5 && step < 6", Answer::Yes),
            ("step > 5 or v > 9", Answer::No),
            ("v > 9 or v == 0.3 and step = 5", Answer::Maybe),
            ("attribute(units) == \"K\"", Answer::Yes),
            ("attribute(units) == 'm'", Answer::No),
            ("attribute(order) >= 7", Answer::Yes),
        ] {
            assert_eq!(ask(text, Some(&v)), expected, "{text}");
        }
    }

    #[test]
    fn a_variable_that_is_not_there_fits_nothing() {
        assert_eq!(ask("v > 0", None), Answer::No);
        assert_eq!(ask("v <= 0", None), Answer::No);
        assert_eq!(ask("not v > 0", None), Answer::Yes);
    }

    #[test]
    fn blocks_without_statistics_are_never_ruled_out() {
        let mut v = block(0.1, 0.5);
        v.add(&BlockFacts::Unknown { elements: 3 });
        for (text, expected) in [
            ("max(v) > 7", Answer::Maybe),
            ("max(v) > 0.3", Answer::Yes),
            ("max(v) < 0.5", Answer::No),
            ("min(v) > 0.2", Answer::No),
            ("v > 7", Answer::Maybe),
            ("v >= 0.5", Answer::Yes),
            ("mean(v) > 100", Answer::Maybe),
            ("count(v) >= 4", Answer::Yes),
            ("count(v) > 7", Answer::No),
        ] {
            assert_eq!(ask(text, Some(&v)), expected, "{text}");
        }
        let mut alone = Summary::default();
        alone.add(&BlockFacts::Unknown { elements: 3 });
        assert_eq!(ask("v < inf", Some(&alone)), Answer::Maybe);
        assert_eq!(ask("max(v) <= inf", Some(&alone)), Answer::Maybe);
    }

    #[test]
    fn minimum_and_maximum_alone_bound_the_rest() {
        let mut v = Summary::default();
        v.add(&BlockFacts::Known {
            min: Number::Real(1.0),
            max: Number::Real(3.0),
            finite: None,
            elements: 10,
            sum: None,
            squares: None,
        });
        for (text, expected) in [
            ("mean(v) > 3", Answer::No),
            ("mean(v) >= 1", Answer::Yes),
            ("mean(v) > 2", Answer::Maybe),
            ("std(v) > 1", Answer::No),
            ("sum(v) > 30", Answer::No),
            ("sum(v) > 20", Answer::Maybe),
            ("count(v) <= 10 and count(v) >= 1", Answer::Yes),
        ] {
            assert_eq!(ask(text, Some(&v)), expected, "{text}");
        }
    }

    #[test]
    fn nothing_finite_fits_nothing_but_its_count() {
        let mut v = Summary::default();
        v.add(&BlockFacts::Nothing);
        assert_eq!(ask("v < 1 or v >= 1 or max(v) > 0", Some(&v)), Answer::No);
        assert_eq!(ask("count(v) == 0", Some(&v)), Answer::Yes);
    }

    #[test]
    fn two_arrays_at_the_same_place_are_certain_only_when_apart() {
        let (low, high) = (block(0.0, 1.0), block(2.0, 3.0));
        let p = parse::parse("u < v").unwrap();
        let with = |u, v| p.answer(&Facts { step: 0, variables: &[Some(u), Some(v)], attributes: &[] });
        assert_eq!(with(&low, &high), Answer::Yes);
        assert_eq!(with(&high, &low), Answer::No);
        assert_eq!(with(&low, &block(0.5, 0.7)), Answer::Maybe);
    }
}
