//! Far stores: HDFS, S3 and other services.
//!
//! | room | owns | feature |
//! |------|--------------|---------|
//! | [`hdfs`] | HDFS through a native client; WebHDFS for the ends of objects that are being written | `hdfs` |
//! | [`object`] | S3 and compatible services, other services, through OpenDAL | `s3`, `services` |
//! | [`pace`] | latency and bandwidth of a store, measured with the programs' own reads | |
//! | [`parameters`] | the parameters of each store, declared and checked | |
//!
//! The traits are synchronous; the asynchronous clients run on a private runtime of two threads that all stores share. Threads do not
//! survive `fork`: in a forked child without `exec` these stores return errors.
//!
//! Credentials are read where the services' own programs read them: environment, profile files, Hadoop's XML
//! configuration, the Kerberos cache. Parameters and messages never contain them.
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

/// A kind of far store.
pub struct Scheme {
    /// First part of its addresses.
    pub scheme: &'static str,
    /// The Cargo feature that adds it to a build.
    pub feature: &'static str,
    /// Whether this build has it.
    pub built: bool,
    /// Its parameters.
    pub parameters: &'static [Parameter],
}

const fn hdfs(scheme: &'static str) -> Scheme {
    Scheme { scheme, feature: "hdfs", built: cfg!(feature = "hdfs"), parameters: parameters::HDFS }
}

const fn service(scheme: &'static str) -> Scheme {
    Scheme { scheme, feature: "services", built: cfg!(feature = "services"), parameters: parameters::SERVICES }
}

/// All kinds of far stores.
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

/// Opens the store at an address, such as `hdfs://namenode:8020/runs` or `s3://bucket/runs`. Makes the folder of the address if it is
/// missing.
///
/// - `address`: may end in parameters, `?replication=2&web=none`.
/// - `parameters`: further parameters, as listed on the store's page.
///
/// # Errors
/// `Unsupported` naming the feature that this build lacks; `Config` for a wrong address or parameter; errors of the store, if it cannot
/// be reached.
/// # Cost
/// One or two requests.
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
    // Parameters that may be credentials are refused by their names.
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

/// An address without a possible password.
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
