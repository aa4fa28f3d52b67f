//! The attributes of a group as rank 0 writes them.

use super::{Output, stored};
use std::collections::BTreeMap;
use thalweg_control::history::{self, Entry};
use thalweg_movement::pack::AttributeSpec;
use thalweg_schema::AttributeSource;
use thalweg_types::{AttributeValue, Value};

impl Output<'_> {
    /// The group's attributes whose values this rank knows, as rank 0 writes them.
    pub(super) fn attributes(&self) -> Vec<AttributeSpec> {
        let mut declared = self.group.lock();
        // Several changes from one output on are one record.
        let mut changes: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        self.changed.iter().for_each(|(output, change)| changes.entry(*output).or_default().push(change));
        let mut changed = Vec::new();
        for (output, words) in changes {
            let step = self.step().saturating_add(u64::from(output > self.number));
            let entry = Entry { output, step, change: words.join("; ") };
            let (name, value) = (entry.name(), entry.value());
            changed.push(AttributeSpec {
                id: declared.builder.attribute_id(&thalweg_schema::full_name(history::PATH, &name)),
                name: name.into(),
                path: history::PATH.into(),
                value: AttributeValue::One(Value::String(value.into_bytes())),
            });
        }
        let group = declared.builder.group();
        let meshes = thalweg_schema::mesh_attributes(group);
        let mut specs: Vec<AttributeSpec> = Vec::new();
        for a in group.attributes.iter().chain(&meshes) {
            let value = match &a.value {
                AttributeSource::One(value) => AttributeValue::One(value.clone()),
                AttributeSource::Many(t, values) => AttributeValue::Many(*t, values.clone()),
                AttributeSource::Variable(name) => match self.scalars.get(name) {
                    Some(value) => AttributeValue::One(value.clone()),
                    None => continue,
                },
            };
            let (path, name) = stored(&a.path, &a.name);
            specs.push(AttributeSpec { id: a.id, name: name.into(), path: path.into(), value });
        }
        specs.extend(changed);
        specs
    }
}
