//! Dimensions: numbers, names of integer variables or attributes, the time index, and arithmetic of these.

/// One extent or offset, resolved when the write happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Dimension {
    /// A number.
    Number(u64),
    /// An integer scalar variable of the group, by its full name; its last written value counts.
    Variable(String),
    /// An integer attribute of the group, by its full name.
    Attribute(String),
    /// The group's time index: stands for 1 locally.
    Time,
    /// The dimension along which blocks of the ranks are joined in rank order (`JoinedDim`); global extents only.
    Joined,
    /// Arithmetic of the others (`2*NX+1`).
    Expression(Expression),
}

/// Arithmetic over dimensions; whole numbers, division rounds towards zero.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Expression {
    Leaf(Box<Dimension>),
    Negate(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
}

/// The operators of [`Expression`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}
