//! Lookup of a variable or attribute by its name: its index entry is read at the first request and cached.

use super::Reader;
use super::names::not_found;
use crate::block::How;
use crate::sets::Sets;
use crate::variable::full_name;
use crate::{Attribute, Kind, Variable};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use thalweg_types::{AttributeValue, ElementType, Error, ErrorKind, Result};

/// Capacity of the cache of index entries, in bytes.
const ENTRY_CACHE: usize = 64 << 20;

/// Cached index entries, by kind (`true`: attributes) and number.
#[derive(Clone, Default)]
pub(super) struct CachedSets {
    pub(super) sets: HashMap<(bool, usize), Arc<Sets>>,
    /// Oldest first.
    pub(super) order: VecDeque<(bool, usize)>,
    pub(super) weight: usize,
}

/// A variable and its characteristics.
pub(super) struct IndexedVariable {
    pub(super) number: usize,
    pub(super) sets: Arc<Sets>,
    pub(super) how: How,
    /// Type before any transform.
    pub(super) original: ElementType,
    pub(super) kind: Kind,
    pub(super) transform: Option<String>,
}

impl Reader {
    /// A variable by its full name (a slash in front may be left out).
    ///
    /// # Errors
    /// `NotFound` with the nearest name; `Unsupported` for a type that BP version 3 does not have; `Corrupt` where
    /// its index entry is damaged.
    /// # Cost
    /// Reads the index entry of this variable alone.
    pub fn variable(&self, name: &str) -> Result<Variable> {
        let v = self.look_up(name)?;
        let steps = v.sets.steps();
        let shape_changes = match v.kind {
            Kind::Global => v.sets.global_changes,
            Kind::Local => v.sets.local_changes,
            Kind::Scalar | Kind::LocalValue => false,
        };
        let shape = match steps.first() {
            Some(first) if v.kind != Kind::Scalar => self.shape(name, *first)?,
            _ => Vec::new(),
        };
        let head = &self.0.variables.heads[v.number];
        Ok(Variable {
            name: head.name.clone(),
            path: head.path.clone(),
            short_name: head.short_name.clone(),
            group: head.group.clone(),
            element: v.original,
            kind: v.kind,
            steps,
            shape,
            shape_changes,
            blocks: v.sets.len() as u64,
            transform: v.transform.clone(),
        })
    }

    /// The last value of an attribute, by its full name (a slash in front may be left out).
    ///
    /// # Errors
    /// As [`Reader::variable`].
    pub fn attribute(&self, name: &str) -> Result<Attribute> {
        let inner = &*self.0;
        let number = inner.attributes.find(name).ok_or_else(|| not_found("attribute", name, &inner.attributes))?;
        let head = &inner.attributes.heads[number];
        let sets = self.sets(true, number).map_err(|e| e.in_variable(name))?;
        let bare = || {
            Error::new(ErrorKind::Corrupt, "an attribute without a value")
                .in_variable(name)
                .in_object(inner.path.clone())
        };
        let last = sets.len().checked_sub(1).ok_or_else(bare)?;
        let mut value = sets.get(last)?.value.ok_or_else(bare)?;
        let mut variable = None;
        if let AttributeValue::Variable(id) = value {
            let named = self.variable_of_id(&head.group, id);
            let named = named.ok_or_else(|| {
                Error::new(
                    ErrorKind::NotFound,
                    format!("it refers to variable {id} of its group, which does not exist"),
                )
                .in_variable(name)
                .in_object(inner.path.clone())
            })?;
            let v = self.look_up(&named)?;
            let step = v.sets.len().checked_sub(1).map(|last| v.sets.step(last)).ok_or_else(bare)?;
            value = AttributeValue::One(self.value(&named, step)?);
            variable = Some(named);
        }
        // ADIOS 1.13 stores an array of one text without dimensions; it is an array all the same.
        if let (AttributeValue::One(one), Some(ElementType::StringArray)) = (&value, head.element) {
            value = AttributeValue::Many(ElementType::String, vec![one.clone()]);
        }
        let element = match &value {
            AttributeValue::One(v) => v.element_type(),
            AttributeValue::Many(ElementType::String, _) => ElementType::StringArray,
            AttributeValue::Many(t, _) => *t,
            AttributeValue::Variable(_) => return Err(bare()),
        };
        Ok(Attribute {
            name: head.name.clone(),
            path: head.path.clone(),
            short_name: head.short_name.clone(),
            group: head.group.clone(),
            element,
            value,
            variable,
            internal: head.name.starts_with("/__adios__"),
        })
    }

    /// The sets of a variable or attribute, read or cached.
    fn sets(&self, attributes: bool, number: usize) -> Result<Arc<Sets>> {
        let inner = &*self.0;
        let key = (attributes, number);
        {
            let cached = inner.cached_sets.lock();
            if let Some(sets) = cached.sets.get(&key) {
                return Ok(sets.clone());
            }
        }
        let (names, table) = match attributes {
            true => (&inner.attributes, &inner.live.steps.attributes),
            false => (&inner.variables, &inner.live.steps.variables),
        };
        let (base, step) = names.places[number];
        let base = base.zip(inner.live.base.as_ref()).map(|(i, b)| &b.entries[i]);
        let sets =
            Sets::load(&inner.file, base, inner.order, step.map(|i| &table.entries()[i]), inner.live.first_time())
                .map_err(|e| self.name_it(e, &names.heads[number].name))?;
        let sets = Arc::new(sets);
        let mut cached = inner.cached_sets.lock();
        // Another thread may have read them meanwhile.
        if cached.sets.insert(key, sets.clone()).is_none() {
            cached.order.push_back(key);
            cached.weight += sets.weight();
        }
        while cached.weight > ENTRY_CACHE && cached.order.len() > 1 {
            let Some(oldest) = cached.order.pop_front().and_then(|k| cached.sets.remove(&k)) else { break };
            cached.weight -= oldest.weight();
        }
        Ok(sets)
    }

    /// A variable's index entry and what follows from it; errors as [`Reader::variable`].
    pub(super) fn look_up(&self, name: &str) -> Result<IndexedVariable> {
        let inner = &*self.0;
        let number = inner
            .variables
            .find(name)
            .ok_or_else(|| not_found("variable", name, &inner.variables).in_object(inner.path.clone()))?;
        let sets = self.sets(false, number)?;
        let unknown = || self.fail(ErrorKind::Unsupported, "its type is none of BP version 3", name);
        let element = sets.element.ok_or_else(unknown)?;
        let facts = sets.facts()?;
        let group = &inner.variables.heads[number].group;
        let fortran = facts.is_some_and(|f| f.rank > 1) && self.fortran(group)?;
        let kind = facts.map_or(Kind::Scalar, |f| f.kind);
        Ok(IndexedVariable {
            number,
            how: How { element, fortran, subfiles: inner.status.subfiles, kind },
            original: facts.map_or(element, |f| f.original),
            kind,
            transform: facts.and_then(|f| f.transform.clone()),
            sets,
        })
    }

    /// The full name of the variable with this id in a group.
    fn variable_of_id(&self, group: &str, id: u32) -> Option<String> {
        let inner = &*self.0;
        let ids = inner.ids.get_or_init(|| {
            let base = inner.live.base.iter().flat_map(|b| &b.entries).filter(|e| !e.is_attribute);
            let base = base.map(|e| (e.head.id, &e.head.group, &e.head.path, &e.head.name));
            let steps = inner.live.steps.variables.entries().iter().map(|e| (e.id, &e.group, &e.path, &e.name));
            let mut ids: HashMap<u32, HashMap<String, String>> = HashMap::new();
            for (id, group, path, name) in base.chain(steps) {
                ids.entry(id).or_default().entry(group.clone()).or_insert_with(|| full_name(path, name));
            }
            ids
        });
        ids.get(&id)?.get(group).cloned()
    }

    pub(super) fn fail(&self, kind: ErrorKind, what: impl Into<String>, name: &str) -> Error {
        self.name_it(Error::new(kind, what), name)
    }

    /// Adds the variable and the file to an error.
    pub(super) fn name_it(&self, e: Error, name: &str) -> Error {
        e.in_variable(name).in_object(self.0.path.clone())
    }

    pub(super) fn no_such_step(&self, name: &str, step: u64, v: &IndexedVariable) -> Error {
        let steps = self.0.status.steps;
        let what = if step >= steps {
            format!("the file has {steps} steps, counted from 0")
        } else {
            format!("not written in this step; it has {} blocks in others", v.sets.len())
        };
        self.fail(ErrorKind::NotFound, what, name).at_step(step)
    }
}
