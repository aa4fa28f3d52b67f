//! The candidates: every method that writes files, and variants of the best one in the parameters that affect speed.

use super::search::Candidate;
use thalweg_io::registry;
use thalweg_movement::method::{self, MethodKind, Parameter};
use thalweg_schema::MethodChoice;

/// Parameters that determine the result, not the speed: the same for every method.
const RESULT_PARAMETERS: [Parameter; 2] = [method::SYNC, method::INDEX];

/// The first candidates: the present method, if it writes files, then every method with its defaults.
pub fn first(used: Option<&MethodChoice>) -> Vec<Candidate> {
    let writes = |choice: &&MethodChoice| registry::find(&choice.method).is_some_and(registry::stores);
    let used = used.filter(writes);
    let fixed: Vec<(String, String)> = used
        .iter()
        .flat_map(|choice| &choice.parameters)
        .filter(|(key, _)| RESULT_PARAMETERS.iter().any(|parameter| parameter.is(key)))
        .cloned()
        .collect();
    let in_use = used
        .map(|choice| Candidate { method: choice.method.to_ascii_uppercase(), parameters: choice.parameters.clone() });
    let all = registry::that_write_by_themselves();
    // Methods that write in the background are compared by the whole time that an output takes.
    let whole = |kind: &MethodKind| registry::written_by_close(kind).split_once('=').map(|(k, v)| (k.into(), v.into()));
    let all = all.map(|kind| {
        let parameters = fixed.iter().cloned().chain(whole(kind)).collect();
        Candidate { method: kind.names[0].to_string(), parameters }
    });
    let mut candidates: Vec<Candidate> = in_use.into_iter().collect();
    // In use under another name, and as it comes: the same thing.
    let known = |c: &Candidate, of: &[Candidate]| {
        of.iter()
            .any(|o| o.parameters == c.parameters && registry::find(&o.method).map(|k| k.names[0]) == Some(&c.method))
    };
    for candidate in all {
        if !known(&candidate, &candidates) {
            candidates.push(candidate);
        }
    }
    candidates
}

/// Parameters worth changing, with the values worth trying for so many ranks.
fn worth_trying(method: &str, ranks: u32) -> Vec<(&'static str, Vec<String>)> {
    let tried = registry::find(method).map_or(&[][..], |kind| kind.tried);
    tried.iter().map(|tried| (tried.parameter.key, tried.values(ranks))).collect()
}

/// The same method with one parameter changed, for each parameter and each value to try. Parameters unknown to the method are skipped.
pub fn of(candidate: &Candidate, ranks: u32) -> Vec<Candidate> {
    let changed = |(key, values): (&'static str, Vec<String>)| {
        values.into_iter().map(move |value| candidate.with(key, &value)).collect::<Vec<_>>()
    };
    let all = worth_trying(&candidate.method, ranks).into_iter().flat_map(changed);
    all.filter(|c| c != candidate && is_taken(c)).collect()
}

fn is_taken(candidate: &Candidate) -> bool {
    registry::check(&choice("tune", candidate)).is_ok_and(|left_out| left_out.is_empty())
}

/// A candidate as a schema has it.
pub fn choice(group: &str, candidate: &Candidate) -> MethodChoice {
    MethodChoice { parameters: candidate.parameters.clone(), ..MethodChoice::new(group, &candidate.method) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_that_writes_is_tried_once_with_what_is_to_be_kept() {
        let mut used = MethodChoice::new("g", "mpi_amr");
        used.parameters = vec![("sync".into(), "yes".into()), ("num_aggregators".into(), "3".into())];
        let first = first(Some(&used));
        assert_eq!(
            (first[0].method.as_str(), first[0].parameter_text().as_str()),
            ("MPI_AMR", "sync=yes;num_aggregators=3")
        );
        let names: Vec<&str> = first[1..].iter().map(|c| c.method.as_str()).collect();
        for name in ["POSIX", "MPI", "MPI_COLLECTIVE", "MPI_AGGREGATE", "MPI_SCHEDULED"] {
            assert_eq!(names.iter().filter(|n| **n == name).count(), 1, "{name}");
        }
        assert!(!names.contains(&"NULL") && !names.contains(&"TRIGGER"));
        let kept = |c: &Candidate| if c.method == "ASYNC" { "sync=yes;async=no" } else { "sync=yes" };
        assert!(first[1..].iter().all(|c| c.parameter_text() == kept(c)));
        // The default is one of them, under any name.
        let plain = super::first(Some(&MethodChoice::new("g", "MPI_LUSTRE")));
        assert_eq!(plain.len(), super::first(None).len());
        assert_eq!(plain[0].method, "MPI_LUSTRE");
    }

    #[test]
    fn every_variant_is_one_that_its_method_takes() {
        for candidate in first(None) {
            let made = worth_trying(&candidate.method, 8);
            let variants = of(&candidate, 8);
            let values: usize = made.iter().map(|(_, values)| values.len()).sum();
            assert_eq!(variants.len(), values, "{}", candidate.method);
        }
    }
}
