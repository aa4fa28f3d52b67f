//! Staged files: handed to a partition's server, which stores them (see [`crate::server::staging`]).

use super::place;
use crate::configuration::{Configuration, Start};
use crate::instance;
use crate::registry::Registry;
use crate::server::SERVICES;
use crate::server::services::Wanted;
use crate::server::staging::{SERVER, prefix};
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use thalweg_layout::write_behind::Promise;
use thalweg_layout::{Layout, OpenWrite, WriterId};
use thalweg_remote::Remote;
use thalweg_types::{Error, ErrorKind, Result};

pub use thalweg_remote::client::Pace;

/// Connects to the staged files of a partition. A layout, whose paths are relative to the configuration's `staging`.
///
/// - `pace`: when this process sends long bodies; at any time if there is none.
/// - `start`: as for [`super::Partition::open`].
///
/// # Errors
/// As [`super::Partition::open`]; `Config` for a partition that stages nothing.
/// # Cost
/// One connection and two requests.
pub fn open(
    file: &Path,
    promise: Promise,
    pace: Option<Arc<dyn Pace>>,
    start: impl FnOnce(&Path, &Configuration) -> Result<()>,
) -> Result<(Remote, Configuration)> {
    let configuration = Configuration::read(file)?;
    let name = &configuration.fixed.name;
    if configuration.dynamic.staging.is_none() {
        let what = format!(
            "partition {name} stages nothing: staging = FOLDER in its configuration says where outputs are stored"
        );
        return Err(Error::new(ErrorKind::Config, what).in_object(file.display().to_string()));
    }
    let registry = Registry::at(&configuration.registry);
    let mut entry = registry.entry(name)?;
    if configuration.dynamic.start != Start::Ahead && !instance::is_complete(&entry)? {
        start(file, &configuration)?;
        entry = registry.entry(name)?;
    }
    if entry.instance.is_none() {
        let what = format!("partition {name} is not started: thalweg partition start {}", file.display());
        return Err(Error::new(ErrorKind::PeerLost, what));
    }
    let server = Arc::new(place::of(&entry, SERVER, &registry.token(name)?)?);
    let remote = Remote::paced(server, prefix(promise), pace).map_err(|e| match e.kind() {
        // The server knows no such mount.
        ErrorKind::Config => Error::new(
            ErrorKind::Config,
            format!("the servers of partition {name} were started without staging: stop and start them"),
        )
        .caused_by(e),
        _ => e,
    })?;
    Ok((remote, configuration))
}

/// Asks the server that stages files for data services on one of them.
///
/// - `configuration`: of the partition.
///
/// # Errors
/// `PeerLost` for a server that does not answer; `Unsupported` for one that has no services; the failure to start their process.
pub fn ask_for_services(configuration: &Configuration, wanted: &Wanted) -> Result<()> {
    let (registry, name) = (Registry::at(&configuration.registry), &configuration.fixed.name);
    let (entry, token) = (registry.entry(name)?, registry.token(name)?);
    let control = super::control(&entry, &token, SERVER, place::PATIENCE)?;
    let text = toml::to_string(wanted).map_err(|e| Error::new(ErrorKind::InvalidArgument, e.to_string()))?;
    let request = control.open_write(SERVICES, OpenWrite::Replace, WriterId(0))?;
    request.write_at(0, &[IoSlice::new(text.as_bytes())])?;
    request.close()
}
