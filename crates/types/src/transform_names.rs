//! The names of transforms that an XML configuration or a file may contain.
//!
//! The list stands here, below the crates that parse configurations and those that compress: the preload door parses
//! configurations and is linked with no compression library (docs/decisions/0023).

/// Names of transforms, ADIOS 1.13's first, in its order; `zstd` and `pco` are ours. Which of them are built in is known in
/// `thalweg-transform`.
pub const TRANSFORM_NAMES: &[&str] = &[
    "none", "identity", "zlib", "bzip2", "szip", "isobar", "aplod", "alacrity", "zfp", "sz", "lz4", "blosc", "mgard",
    "zstd", "pco",
];

/// Whether `name` is in [`TRANSFORM_NAMES`], in any letter case.
pub fn is_transform_name(name: &str) -> bool {
    TRANSFORM_NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
}
