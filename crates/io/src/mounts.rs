//! The mounts of this process ([`thalweg_mounts`]), with the code of all stores that this build holds.

use std::path::PathBuf;
use std::sync::Arc;
use thalweg_layout::{Layout, Mounts};
use thalweg_mounts::table;
use thalweg_types::Result;

pub use thalweg_mounts::table::{Checked, Entry, VARIABLE, files, finish, parse, remember_working_directory};
pub use thalweg_mounts::{draining, layouts, named, starting, wrappers};

/// Gives this process the code of stores of other machines. Every function of this module that may open a store calls it.
pub fn with_far_stores() {
    #[cfg(any(feature = "hdfs", feature = "s3", feature = "services"))]
    thalweg_mounts::stores::set_far(thalweg_mounts::stores::FarStores {
        features: &[
            #[cfg(feature = "hdfs")]
            (thalweg_mounts::stores::HDFS, thalweg_store_object::parameters::HDFS),
            #[cfg(feature = "s3")]
            (thalweg_mounts::stores::S3, thalweg_store_object::parameters::S3),
            #[cfg(feature = "services")]
            (thalweg_mounts::stores::SERVICES, thalweg_store_object::parameters::SERVICES),
        ],
        open: |url| thalweg_store_object::open(url, &Default::default()),
    });
}

/// As [`table::layout`].
///
/// # Errors
/// `Config` with all errors of the mount table; the failure of reading it.
pub fn layout() -> Result<Arc<dyn Layout>> {
    with_far_stores();
    table::layout()
}

/// As [`table::of_process`].
///
/// # Errors
/// `Config` with all errors of the mount table; the failure of reading it.
pub fn of_process() -> Result<Arc<Mounts>> {
    with_far_stores();
    table::of_process()
}

/// As [`table::of_files`].
///
/// # Errors
/// `Config` with all errors of the mount table; the failure of reading it.
pub fn of_files(files: &[PathBuf]) -> Result<Arc<Mounts>> {
    with_far_stores();
    table::of_files(files)
}

/// As [`table::entries`].
///
/// # Errors
/// `Config` with all errors of the mount table; the failure of reading it.
pub fn entries(files: &[PathBuf]) -> Result<Vec<Entry>> {
    with_far_stores();
    table::entries(files)
}

/// As [`table::check`].
pub fn check(text: &str, file: &str) -> Checked {
    with_far_stores();
    table::check(text, file)
}

/// As [`table::make_now`].
///
/// # Errors
/// Why the layout or a store of the mount cannot be made, as text.
pub fn make_now(entry: &Entry) -> std::result::Result<Arc<dyn Layout>, String> {
    with_far_stores();
    table::make_now(entry)
}

/// Stores by their URLs.
pub mod stores {
    use super::with_far_stores;
    use std::sync::Arc;
    use thalweg_store::Store;
    use thalweg_store::wrap::Tiered;
    use thalweg_types::Result;

    pub use thalweg_mounts::stores::{Code, STORES, StoreKind};

    /// As [`thalweg_mounts::stores::open`].
    ///
    /// # Errors
    /// `Config` for an unknown kind of store; `Unsupported` if this build lacks it; errors of the store.
    pub fn open(url: &str) -> Result<Arc<dyn Store>> {
        with_far_stores();
        thalweg_mounts::stores::open(url)
    }

    /// As [`thalweg_mounts::stores::tiered`].
    ///
    /// # Errors
    /// `Config` for another kind of URL, or stores that cannot form a burst buffer; errors of the stores.
    pub fn tiered(url: &str) -> Result<Tiered> {
        with_far_stores();
        thalweg_mounts::stores::tiered(url)
    }
}
