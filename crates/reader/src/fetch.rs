//! Fetching.

use thalweg_types::ElementType;

/// Numbers in memory whose bytes are those of an element type.
pub trait Element: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy {
    /// Whether values of this type in a file are of this Rust type.
    fn is(element: ElementType) -> bool;
}
