//! The known name closest to an unknown one, for error messages.

/// Longest name that is compared, in bytes: the distance costs the product of both lengths.
const LONGEST: usize = 64;

/// The known name with the smallest edit distance (Damerau-Levenshtein, letter case ignored), if it differs in at most a third
/// of its letters; the first of several.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let wanted = name.to_lowercase();
    known
        .into_iter()
        .filter(|k| k.len() <= LONGEST)
        .map(|k| (strsim::damerau_levenshtein(&wanted, &k.to_lowercase()), k))
        .filter(|(distance, k)| *distance <= wanted.chars().count().max(k.chars().count()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_finds_the_known_one_and_nonsense_finds_none() {
        let known = ["aggregators", "chunk", "pattern"];
        assert_eq!(nearest("agregators", known), Some("aggregators"));
        assert_eq!(nearest("CHUNKS", known), Some("chunk"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest(&"chunk".repeat(1000), known), None);
    }

    #[test]
    fn far_names_are_not_offered() {
        assert_eq!(nearest("offst", ["offsets", "dimensions"]), Some("offsets"));
        assert_eq!(nearest("DIMENSION", ["offsets", "dimensions"]), Some("dimensions"));
        assert_eq!(nearest("zzz", ["offsets", "dimensions"]), None);
    }
}
