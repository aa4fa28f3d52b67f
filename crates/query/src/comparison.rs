//! Queries: comparisons of variables with numbers, combined by AND and OR.

use crate::Operator;
use crate::number::Number;
use crate::predicate::{self, Expression, Function, Term};
use thalweg_types::{Error, ErrorKind, Result, Selection};

/// A variable inside a selection, compared with a number.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Full name; a slash in front may be left out.
    pub variable: String,
    /// The selection whose values are compared.
    pub selection: Selection,
    /// The operator.
    pub operator: Operator,
    /// The number on the right side.
    pub number: Number,
    /// The step of this comparison; `None`: the step at which the query is evaluated.
    pub step: Option<u64>,
}

/// A condition on values.
///
/// Comparisons are combined element by element: the first of one selection with the first of the other, and so on. Therefore all
/// selections of a query have the same extents; their offsets may differ.
///
/// ```
/// use thalweg_query::{Operator, Query};
/// use thalweg_types::{BoundingBox, Selection};
///
/// let hot = Query::compare("T", Operator::Greater, 300.0);
/// let still = Query::compare("speed", Operator::LessOrEqual, 1);
/// let query = hot.and(still).within(&Selection::Box(BoundingBox::new([0, 10], [64, 64])));
/// assert_eq!(query.to_string(), "T > 300 and speed <= 1");
/// ```
#[derive(Debug, Clone)]
pub enum Query {
    /// One comparison.
    Compare(Comparison),
    /// All of these; matches every element if empty.
    All(Vec<Query>),
    /// At least one of these; matches nothing if empty.
    Any(Vec<Query>),
}

impl Query {
    /// Compares a whole variable with a number.
    pub fn compare(variable: impl Into<String>, operator: Operator, number: impl Into<Number>) -> Query {
        let (variable, number) = (variable.into(), number.into());
        Query::Compare(Comparison { variable, selection: Selection::All, operator, number, step: None })
    }

    /// Parses the comparisons of variables with numbers in the syntax of `thalweg find`: `T > 300 and not speed > 1`.
    ///
    /// # Errors
    /// `InvalidArgument` with the expected syntax and the place.
    pub fn parse(text: &str) -> Result<Query> {
        let predicate = predicate::parse::parse(text)
            .map_err(|mistake| Error::new(ErrorKind::InvalidArgument, mistake.to_string()))?;
        of_expression(&predicate.root, &predicate.variables, false)
    }

    /// Both queries.
    pub fn and(self, other: Query) -> Query {
        Query::All(vec![self, other])
    }

    /// At least one of the two queries.
    pub fn or(self, other: Query) -> Query {
        Query::Any(vec![self, other])
    }

    /// The same query with every comparison inside this selection.
    pub fn within(mut self, selection: &Selection) -> Query {
        self.for_each(&mut |c| c.selection = selection.clone());
        self
    }

    /// The same query with every comparison at this step; combined with [`Query::and`], finds changes between two steps.
    pub fn at_step(mut self, step: u64) -> Query {
        self.for_each(&mut |c| c.step = Some(step));
        self
    }

    /// The same query with each comparison, from left to right, replaced by the result of `change`; `None` if `change` returns `None` for
    /// one of them.
    ///
    /// # Errors
    /// The first error of `change`.
    pub fn try_map<E>(
        &self,
        change: &mut impl FnMut(&Comparison) -> std::result::Result<Option<Query>, E>,
    ) -> std::result::Result<Option<Query>, E> {
        let (parts, join): (_, fn(Vec<Query>) -> Query) = match self {
            Query::Compare(c) => return change(c),
            Query::All(parts) => (parts, Query::All),
            Query::Any(parts) => (parts, Query::Any),
        };
        let changed: Vec<Option<Query>> =
            parts.iter().map(|part| part.try_map(change)).collect::<std::result::Result<_, E>>()?;
        Ok(changed.into_iter().collect::<Option<Vec<Query>>>().map(join))
    }

    fn for_each(&mut self, each: &mut dyn FnMut(&mut Comparison)) {
        match self {
            Query::Compare(c) => each(c),
            Query::All(parts) | Query::Any(parts) => parts.iter_mut().for_each(|p| p.for_each(each)),
        }
    }

    /// Every comparison, from left to right.
    pub fn comparisons(&self) -> Vec<&Comparison> {
        fn collect<'a>(query: &'a Query, all: &mut Vec<&'a Comparison>) {
            match query {
                Query::Compare(c) => all.push(c),
                Query::All(parts) | Query::Any(parts) => parts.iter().for_each(|p| collect(p, all)),
            }
        }
        let mut all = Vec::new();
        collect(self, &mut all);
        all
    }
}

fn of_expression(expression: &Expression, names: &[String], negated: bool) -> Result<Query> {
    let parts = |parts: &[Expression]| parts.iter().map(|p| of_expression(p, names, negated)).collect::<Result<_>>();
    match expression {
        Expression::All(all) if negated => Ok(Query::Any(parts(all)?)),
        Expression::Any(any) if negated => Ok(Query::All(parts(any)?)),
        Expression::All(all) => Ok(Query::All(parts(all)?)),
        Expression::Any(any) => Ok(Query::Any(parts(any)?)),
        Expression::Not(inner) => of_expression(inner, names, !negated),
        Expression::Compare(a, operator, b) => {
            let (i, operator, number) = match (a, b) {
                (Term::Of(Function::Any, i), Term::Number(n)) => (*i, *operator, *n),
                (Term::Number(n), Term::Of(Function::Any, i)) => (*i, operator.turned(), *n),
                _ => {
                    let what = "values are compared with numbers only, as in v > 3; \
                                functions, texts, steps and attributes are for `thalweg find`";
                    return Err(Error::new(ErrorKind::InvalidArgument, what));
                }
            };
            if negated && operator != Operator::Equal && operator != Operator::NotEqual {
                // NaN is neither above nor below, so that this is not the opposite comparison alone.
                let what = "'not' is valid with == and != only: NaN is neither above a number nor below it";
                return Err(Error::new(ErrorKind::InvalidArgument, what));
            }
            let operator = match operator {
                Operator::Equal if negated => Operator::NotEqual,
                Operator::NotEqual if negated => Operator::Equal,
                same => same,
            };
            Ok(Query::compare(names[i].clone(), operator, number))
        }
    }
}

impl std::fmt::Display for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (parts, word, nothing) = match self {
            Query::Compare(c) => return write!(f, "{} {} {}", c.variable, c.operator, c.number),
            Query::All(parts) => (parts, "and", "everything"),
            Query::Any(parts) => (parts, "or", "nothing"),
        };
        if parts.is_empty() {
            return f.write_str(nothing);
        }
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                write!(f, " {word} ")?;
            }
            match part {
                Query::Compare(_) => write!(f, "{part}")?,
                _ => write!(f, "({part})")?,
            }
        }
        Ok(())
    }
}

/// The error for a selection that queries don't take.
pub(crate) fn strided() -> Error {
    Error::new(ErrorKind::InvalidArgument, "a query has boxes, points and blocks, not every n-th element of a box")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_a_query() {
        for (text, shown) in [
            ("T > 300", "T > 300"),
            ("300 < T and u <= 2 or v == 1", "(T > 300 and u <= 2) or v == 1"),
            ("1 < T < 2", "T > 1 and T < 2"),
            ("not (T == 1 or u != 2)", "T != 1 and u == 2"),
            ("any(\"my T\") >= -1e-3", "my T >= -0.001"),
        ] {
            assert_eq!(Query::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn every_comparison_is_replaced_or_none_is() {
        let query = Query::parse("T > 300 and (u <= 2 or v == 1)").unwrap();
        let mut seen = Vec::new();
        let numbered = query.try_map(&mut |c| {
            seen.push(c.variable.clone());
            Ok::<_, ()>(Some(Query::compare(format!("{}{}", c.variable, seen.len()), c.operator, c.number)))
        });
        assert_eq!(seen, ["T", "u", "v"]);
        assert_eq!(numbered.unwrap().unwrap().to_string(), "T1 > 300 and (u2 <= 2 or v3 == 1)");
        let mut without_v = |c: &Comparison| Ok::<_, ()>((c.variable != "v").then(|| Query::Compare(c.clone())));
        assert!(query.try_map(&mut without_v).unwrap().is_none());
        // An error counts behind a comparison without a result.
        let mut fails = |c: &Comparison| if c.variable == "v" { Err("v") } else { Ok(None) };
        assert_eq!(query.try_map(&mut fails).unwrap_err(), "v");
    }

    #[test]
    fn what_only_steps_have_is_refused() {
        for (text, part) in [
            ("max(T) > 3", "functions"),
            ("T > u", "functions"),
            ("step > 3", "functions"),
            ("not T > 3", "NaN"),
            ("T >> 3", "expected a number"),
        ] {
            let error = Query::parse(text).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
