//! Comparison operators, and answers that may be uncertain.

use std::cmp::Ordering;

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Operator {
    /// Whether it holds of two numbers in this order.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
        }
    }

    /// The operator with its sides exchanged.
    pub fn turned(self) -> Operator {
        match self {
            Operator::Less => Operator::Greater,
            Operator::LessOrEqual => Operator::GreaterOrEqual,
            Operator::Greater => Operator::Less,
            Operator::GreaterOrEqual => Operator::LessOrEqual,
            same => same,
        }
    }
}

/// An answer from characteristics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// Certainly not.
    No,
    /// Possible.
    Maybe,
    /// Certainly.
    Yes,
}

impl Answer {
    pub(crate) fn of(yes: bool, no: bool) -> Answer {
        match (yes, no) {
            (_, true) => Answer::No,
            (true, _) => Answer::Yes,
            _ => Answer::Maybe,
        }
    }

    pub(crate) fn not(self) -> Answer {
        match self {
            Answer::No => Answer::Yes,
            Answer::Maybe => Answer::Maybe,
            Answer::Yes => Answer::No,
        }
    }
}

impl std::fmt::Display for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
        })
    }
}
