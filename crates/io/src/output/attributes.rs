//! The attributes of a group as rank 0 writes them.

use super::{Output, stored};
use thalweg_control::history::{self, Entry};
use thalweg_movement::pack::AttributeSpec;
use thalweg_schema::AttributeSource;
use thalweg_types::{AttributeValue, Value};

impl Output<'_> {
    /// The group's attributes whose values this rank knows, as rank 0 writes them.
    pub(super) fn attributes(&self) -> Vec<AttributeSpec> {
        let mut declared = self.group.lock();
        let changed = self.changed.as_ref().map(|(output, change)| {
            let entry = Entry { output: *output, step: self.step().saturating_add(1), change: change.clone() };
            let (name, value) = (entry.name(), entry.value());
            AttributeSpec {
                id: declared.builder.attribute_id(&thalweg_schema::full_name(history::PATH, &name)),
                name: name.into(),
                path: history::PATH.into(),
                value: AttributeValue::One(Value::String(value.into_bytes())),
            }
        });
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
