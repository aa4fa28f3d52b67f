//! Stores far away: HDFS, S3, and other services.
//!
//! | room | what it owns | feature |
//! |------|--------------|---------|
//! | [`hdfs`] | HDFS, spoken natively; WebHDFS for the tails of objects that are being written | `hdfs` |
//! | [`object`] | S3 and what speaks it, other services, through OpenDAL | `s3`, `services` |
//! | [`pace`] | how long requests wait and how fast bytes come | |
//! | [`parameters`] | the parameters of each store, declared and checked | |
//!
//! The traits are synchronous; the asynchronous clients run on a runtime of two threads that the stores share and nobody
//! sees. Threads do not survive `fork`: a child that forked without `exec` gets an error from these stores, never silence.
//!
//! Credentials come from the places where the services' own programs look: environment, profile files, Hadoop's XML
//! configuration, the Kerberos cache. There is no parameter for them, and no message holds them.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_params::Parameter;
use thalweg_store::Store;
use thalweg_types::{Error, ErrorKind, Result};

#[cfg(feature = "hdfs")]
pub mod hdfs;
#[cfg(feature = "object")]
pub mod object;
#[cfg(any(feature = "hdfs", feature = "object"))]
pub mod pace;
pub mod parameters;
#[cfg(any(feature = "hdfs", feature = "object"))]
mod runtime;

#[cfg(feature = "hdfs")]
pub use hdfs::Hdfs;
#[cfg(feature = "object")]
pub use object::Object;

/// A store that a build may have.
pub struct Scheme {
    /// What its addresses begin with.
    pub scheme: &'static str,
    /// The Cargo feature that builds it.
    pub feature: &'static str,
    /// Whether this build has it.
    pub built: bool,
    /// What it can be told.
    pub parameters: &'static [Parameter],
}

const fn hdfs(scheme: &'static str) -> Scheme {
    Scheme { scheme, feature: "hdfs", built: cfg!(feature = "hdfs"), parameters: parameters::HDFS }
}

const fn service(scheme: &'static str) -> Scheme {
    Scheme { scheme, feature: "services", built: cfg!(feature = "services"), parameters: parameters::SERVICES }
}

/// The stores that a build may have.
pub const SCHEMES: &[Scheme] = &[
    hdfs("hdfs"),
    hdfs("viewfs"),
    Scheme { scheme: "s3", feature: "s3", built: cfg!(feature = "s3"), parameters: parameters::S3 },
    service("azblob"),
    service("gcs"),
    service("sftp"),
    service("swift"),
    service("webdav"),
];

/// The store at an address, such as `hdfs://namenode:8020/runs` or `s3://bucket/runs`.
///
/// - `address`: may end in parameters, `?replication=2&web=none`.
/// - `parameters`: more of them, as the store's page lists them.
///
/// # Errors
/// `Unsupported` names the feature where this build lacks the store; `Config` for anything wrong in address or parameters;
/// what the store says when it is not there. The folder that the address names is made where it is missing.
pub fn open(address: &str, parameters: &BTreeMap<String, String>) -> Result<Arc<dyn Store>> {
    let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
    let Some(kind) = SCHEMES.iter().find(|kind| kind.scheme == scheme) else {
        let known: Vec<_> = SCHEMES.iter().map(|kind| format!("{}://", kind.scheme)).collect();
        let what = format!("store \"{}\" is none of {}", shown(address), known.join(", "));
        return Err(Error::new(ErrorKind::Config, what));
    };
    if !kind.built {
        let what = format!("store \"{}\" needs a build with the feature \"{}\"", shown(address), kind.feature);
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    // Only the part that names a host may hold one; parameters refuse them by their own names.
    if address.contains('@') {
        let what =
            format!("store \"{}\": credentials are never part of an address; see docs/guide/stores.md", shown(address));
        return Err(Error::new(ErrorKind::Config, what));
    }
    let (address, query) = address.split_once('?').unwrap_or((address, ""));
    let mut all = parameters.clone();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        all.insert(key.into(), value.into());
    }
    let parameters = parameters::checked(&shown(address), &all, kind.parameters)?;
    match scheme {
        #[cfg(feature = "hdfs")]
        "hdfs" | "viewfs" => Ok(Arc::new(Hdfs::open(address, &parameters)?)),
        #[cfg(feature = "object")]
        _ => Ok(Arc::new(Object::open(address, &parameters)?)),
        #[cfg(not(feature = "object"))]
        _ => Err(Error::new(ErrorKind::Unsupported, "no such store in this build")),
    }
}

/// An address without what may be a password in it.
fn shown(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.into() };
    match rest.rsplit_once('@') {
        Some((_, rest)) => format!("{scheme}://***@{rest}"),
        None => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str) -> (ErrorKind, String) {
        let error = open(address, &BTreeMap::new()).err().expect("refused");
        (error.kind(), error.to_string())
    }

    #[test]
    fn an_address_of_no_known_store_lists_the_known_ones() {
        let (kind, text) = refused("ftp://somewhere");
        assert_eq!(kind, ErrorKind::Config);
        assert!(text.contains("hdfs://") && text.contains("s3://"), "{text}");
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_repeated() {
        let (kind, text) = refused("s3://me:open-sesame@bucket/runs");
        assert_eq!(kind, ErrorKind::Config);
        assert!(!text.contains("sesame") && text.contains("bucket"), "{text}");
    }

    #[test]
    #[cfg(feature = "s3")]
    fn parameters_may_stand_in_the_address() {
        let (kind, text) = refused("s3://bucket/runs?part=7&region=here");
        assert_eq!(kind, ErrorKind::Config);
        assert!(text.contains("part=7"), "{text}");
        let (_, text) =
            refused("s3://bucket/runs?region=here&endpoint=http://127.0.0.1:9&secret_access_key=open-sesame");
        assert!(text.contains("secret_access_key") && !text.contains("sesame"), "{text}");
    }

    #[test]
    #[cfg(not(feature = "services"))]
    fn a_store_that_is_not_built_in_names_its_feature() {
        let (kind, text) = refused("gcs://bucket");
        assert_eq!(kind, ErrorKind::Unsupported);
        assert!(text.contains("\"services\""), "{text}");
    }
}
