//! What rank 0 and the program that serves viewers say to each other.
//!
//! | from | what |
//! |---|---|
//! | the program, at its begin | [`Ready`], a line of JSON |
//! | the program, then | [`Wanted`], a line of JSON at each change |
//! | rank 0 | messages: bytes of the head (`u32`), bytes of the values (`u32`), the head as JSON ([`Told`]), the values as `f32`; numbers in the order of little-endian |

use super::plane::{Ask, Plane};
use serde::{Deserialize, Serialize};

/// Most elements of the planes that all viewers see together.
pub const MOST_ELEMENTS: u64 = 8 << 20;

/// The program serves viewers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    /// Where a browser finds the page.
    pub url: String,
}

/// What viewers want.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// How many there are.
    pub viewers: u32,
    /// Each thing once.
    pub asks: Vec<Ask>,
}

/// A message for viewers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Told {
    /// What an output has.
    Step {
        /// Name of the output.
        output: String,
        /// Its group.
        group: String,
        /// The step, from 0.
        step: u64,
        /// The variables, as [`Summary::to_json`](thalweg_movement::summary::Summary::to_json) has them.
        variables: serde_json::Value,
    },
    /// The values of a plane follow.
    Frame {
        /// The step.
        step: u64,
        /// What was asked for.
        ask: Ask,
        /// Extents of the array.
        shape: Vec<u64>,
        /// What of it follows.
        plane: Plane,
    },
}

/// A message as bytes.
pub fn encode(told: &Told, values: &[f32]) -> Vec<u8> {
    // Heads are texts and numbers: they can be written.
    let head = serde_json::to_vec(told).unwrap_or_default();
    let mut bytes = Vec::with_capacity(8 + head.len() + 4 * values.len());
    bytes.extend((head.len() as u32).to_le_bytes());
    bytes.extend((4 * values.len() as u32).to_le_bytes());
    bytes.extend(head);
    values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    bytes
}
