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

/// Opens the store at an address, such as `hdfs://namenode:8020/runs` or `s3://bucket/runs`. On HDFS, makes the folder of the address if
/// it is missing.
///
/// - `address`: may end in parameters, `?replication=2&web=none`.
/// - `parameters`: further parameters, as listed on the store's page.
///
/// # Errors
/// `Unsupported` for a scheme without code in this build (the table of schemes and their Cargo features is `STORES` of
/// `thalweg_mounts::stores`, which refuses a scheme earlier and names its feature); `Config` for a wrong address or parameter; errors
/// of HDFS, if it cannot be reached.
/// # Cost
/// On HDFS one or two requests; else none.
pub fn open(address: &str, parameters: &BTreeMap<String, String>) -> Result<Arc<dyn Store>> {
    let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
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
    let known = match scheme {
        "hdfs" | "viewfs" => parameters::HDFS,
        "s3" => parameters::S3,
        _ => parameters::SERVICES,
    };
    let parameters = parameters::checked(&shown(address), &all, known)?;
    match scheme {
        #[cfg(feature = "hdfs")]
        "hdfs" | "viewfs" => Ok(Arc::new(Hdfs::open(address, &parameters)?)),
        #[cfg(feature = "object")]
        _ => Ok(Arc::new(Object::open(address, &parameters)?)),
        #[cfg(not(feature = "object"))]
        _ => {
            let what = format!("store \"{}\": no such store in this build", shown(address));
            Err(Error::new(ErrorKind::Unsupported, what))
        }
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
    fn an_address_of_no_store_of_this_build_is_refused() {
        let (kind, text) = refused("ftp://somewhere");
        assert_eq!(kind, ErrorKind::Unsupported);
        assert!(text.contains("ftp://somewhere"), "{text}");
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
}
