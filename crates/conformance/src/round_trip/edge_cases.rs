//! Edge cases that break other readers, kept apart from [`everything`](super::everything) so that the main scenario stays readable
//! for them. `docs/format/foreign.md` names the cases.
//!
//! | names | the edge case |
//! |---|---|
//! | `columns` | a global array whose extent of 0 is the one that files keep last |
//! | `one_wide` | local arrays with an extent of 1, several a step |

use super::numbers::plain;
use super::{Scenario, Write};
use std::collections::BTreeMap;
use thalweg_bp::shape::Shape;
use thalweg_schema::xml;
use thalweg_types::ElementType;

const DOCUMENT: &str = r#"<adios-config host-language="C"><adios-group name="edge_cases">
  <global-bounds dimensions="5,0" offsets="0,0"><var name="columns" type="double" dimensions="5,0"/></global-bounds>
  <var name="one_wide" type="double" dimensions="1,3"/>
</adios-group></adios-config>"#;

/// The scenario, for so many ranks and steps.
///
/// # Panics
/// Where the document is wrong.
pub fn scenario(ranks: u32, steps: u64) -> Scenario {
    let schema = xml::parse(DOCUMENT, "edge_cases.xml").unwrap_or_else(|e| panic!("{e}"));
    let of = |step: u64, rank: u32| {
        let bytes = plain(ElementType::F64, &format!("{step} {rank}"), 3);
        vec![
            Write { variable: 0, shape: Some(Shape::global([5, 0], [5, 0], [0, 0])), bytes: vec![], deferred: false },
            Write { variable: 1, shape: Some(Shape::local([1, 3])), bytes, deferred: true },
        ]
    };
    let steps = (0..steps).map(|step| (0..ranks).map(|rank| of(step, rank)).collect()).collect();
    Scenario { schema, steps, attributes: BTreeMap::new() }
}
