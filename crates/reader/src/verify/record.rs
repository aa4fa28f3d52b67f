//! Facts about a record of a process group, kept until it is compared with its set in the index.

use super::*;

/// Facts about a record, to be compared with its set in the index.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordSeen {
    pub(super) name: u64,
    pub(super) code: u8,
    pub(super) essence: u64,
    pub(super) sums: Option<Sums>,
    /// From a group with a trailer.
    pub(super) ours: bool,
}

pub(super) fn digest(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Count, sum and sum of squares, as bits.
pub(super) type Sums = (u64, u64, u64);

/// Statistics beside the index. Releases without them omit them when they extend a file.
pub(super) fn sums_beside(set: &Characteristics) -> Option<Sums> {
    let s = set.statistics.as_ref().filter(|s| s.level == Level::Beside)?;
    Some((s.finite, s.sum.to_bits(), s.sum_of_squares.to_bits()))
}

/// Facts on which index and process group must agree. Foreign writers store less in both: ADIOS 1.13 stores time 0 for
/// attributes, and statistics in other forms.
pub(super) fn essence(set: &Characteristics, attribute: bool, ours: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    let put = |value: &Value, hasher: &mut DefaultHasher| {
        let mut bytes = Vec::new();
        value.append_to(&mut bytes);
        bytes.hash(hasher);
    };
    if !attribute || ours {
        (set.payload_offset, set.time_index).hash(&mut hasher);
    }
    if !attribute {
        set.shape.as_ref().map(|s| (&s.local, &s.global, &s.offset)).hash(&mut hasher);
        if let Some(t) = &set.transform {
            (&t.uid, t.element.code(), &t.shape.local, &t.shape.global, &t.shape.offset, &t.metadata).hash(&mut hasher);
        }
    }
    match &set.value {
        None => 0u8.hash(&mut hasher),
        Some(AttributeValue::One(v)) => put(v, &mut hasher),
        Some(AttributeValue::Many(_, values)) => values.iter().for_each(|v| put(v, &mut hasher)),
        Some(AttributeValue::Variable(id)) => id.hash(&mut hasher),
    }
    if let (Some(s), true) = (&set.statistics, ours) {
        put(&s.min, &mut hasher);
        put(&s.max, &mut hasher);
        match s.level {
            Level::Full => (s.finite, s.sum.to_bits(), s.sum_of_squares.to_bits()).hash(&mut hasher),
            _ => (s.finite > 0).hash(&mut hasher),
        }
    }
    hasher.finish()
}
