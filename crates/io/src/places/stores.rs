//! The one table of stores: the name before the first `:` of a URL says which.

use crate::places::draining;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use thalweg_params::Parameter;
use thalweg_schema::report::Problem;
use thalweg_store::wrap::{Sequential, Tiered};
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::{Error, ErrorKind, Result};

/// A kind of store.
pub struct StoreKind {
    /// What its URLs begin with.
    pub scheme: &'static str,
    /// A URL, and what its parts mean.
    pub form: &'static str,
    /// Parameters it knows, behind a `?` in its URL.
    pub parameters: &'static [Parameter],
    /// The Cargo feature that this build lacks; `None` where the kind is built in.
    pub lacks: Option<&'static str>,
    /// Opens the store of a URL. Stores on a network connect when they are first asked for something.
    pub open: fn(&str) -> Result<Arc<dyn Store>>,
}

/// Every kind.
pub const STORES: &[StoreKind] = &[
    StoreKind {
        scheme: "posix",
        form: "posix:/scratch/a: files below a folder, which is there",
        parameters: &[],
        lacks: None,
        open: posix,
    },
    StoreKind {
        scheme: "memory",
        form: "memory:name: objects in the memory of this process, the same for the same name",
        parameters: &[],
        lacks: None,
        open: memory,
    },
    StoreKind {
        scheme: "sequential",
        form: "sequential:hdfs, sequential:s3: memory that can do no more than HDFS or S3, for trying a mount",
        parameters: &[],
        lacks: None,
        open: sequential,
    },
    StoreKind {
        scheme: "tiered",
        form: "tiered:posix:/nvme/runs=>hdfs://namenode:8020/runs: a burst buffer, the fast store before the one where all ends",
        parameters: &[],
        lacks: None,
        open: |url| Ok(Arc::new(tiered(url)?)),
    },
    far_away("hdfs", "hdfs://namenode:8020/runs: HDFS; parameters behind ?, see docs/guide/stores.md", HDFS),
    far_away("viewfs", "viewfs://cluster/runs: HDFS through its mount table", HDFS),
    far_away("s3", "s3://bucket/runs: S3 and what speaks it", S3),
    far_away("gcs", "gcs://bucket/runs: Google Cloud Storage", SERVICES),
    far_away("azblob", "azblob://container/runs: Azure Blob Storage", SERVICES),
    far_away("sftp", "sftp://host/runs: files of another machine, through ssh", SERVICES),
    far_away("swift", "swift://container/runs: OpenStack Swift", SERVICES),
    far_away("webdav", "webdav://host/runs: WebDAV", SERVICES),
];

const HDFS: Feature = ("hdfs", cfg!(feature = "hdfs"), known::HDFS);
const S3: Feature = ("s3", cfg!(feature = "s3"), known::S3);
const SERVICES: Feature = ("services", cfg!(feature = "services"), known::SERVICES);

/// A Cargo feature, whether this build has it, and what its stores can be told.
type Feature = (&'static str, bool, &'static [Parameter]);

#[cfg(any(feature = "hdfs", feature = "s3", feature = "services"))]
use thalweg_store_object::parameters as known;

/// Parameters of stores that this build cannot open.
#[cfg(not(any(feature = "hdfs", feature = "s3", feature = "services")))]
mod known {
    use super::Parameter;
    pub const HDFS: &[Parameter] = &[];
    pub const S3: &[Parameter] = &[];
    pub const SERVICES: &[Parameter] = &[];
}

const fn far_away(scheme: &'static str, form: &'static str, feature: Feature) -> StoreKind {
    let (feature, built, parameters) = feature;
    StoreKind { scheme, form, parameters, lacks: if built { None } else { Some(feature) }, open: far }
}

/// Opens the store of a URL.
///
/// # Errors
/// `Config` naming an unknown kind and the nearest known one; `Unsupported` where this build lacks it; what the store says.
pub fn open(url: &str) -> Result<Arc<dyn Store>> {
    let kind = kind(url).map_err(Error::from)?;
    if let Some(lacks) = kind.lacks {
        let what = format!("this build has no store \"{}\": it was made without the feature \"{lacks}\"", kind.scheme);
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    (kind.open)(url)
}

/// As [`open`], for a mount.
///
/// - `drains`: a burst buffer's drain starts by itself: [`draining`].
pub(crate) fn open_to_mount(url: &str, drains: bool) -> Result<Arc<dyn Store>> {
    if !drains || !url.starts_with("tiered:") {
        return open(url);
    }
    let store = tiered(url)?;
    draining::after_close(&store, url);
    Ok(Arc::new(store))
}

/// The kind of store that a URL names.
pub(crate) fn kind(url: &str) -> std::result::Result<&'static StoreKind, Problem> {
    let Some((scheme, _)) = url.split_once(':') else {
        return Err(Problem::new(format!("\"{url}\" names no store")).expected("a URL, such as posix:/scratch/a"));
    };
    STORES
        .iter()
        .find(|k| k.scheme.eq_ignore_ascii_case(scheme))
        .ok_or_else(|| Problem::unknown("store", scheme, STORES.iter().map(|k| k.scheme)))
}

fn rest(url: &str) -> &str {
    url.split_once(':').map_or("", |(_, rest)| rest)
}

/// `posix:/folder`, and `posix:///folder` as other programs write it.
fn posix(url: &str) -> Result<Arc<dyn Store>> {
    let rest = rest(url);
    let path = rest.strip_prefix("//").filter(|p| p.starts_with('/')).unwrap_or(rest);
    if !path.starts_with('/') {
        let what = format!("\"{url}\" is relative: a mount means the same folder for every process, posix:/scratch/a");
        return Err(Error::new(ErrorKind::Config, what));
    }
    Ok(Arc::new(Posix::at(path)?))
}

fn memory(url: &str) -> Result<Arc<dyn Store>> {
    static NAMED: OnceLock<Mutex<HashMap<String, Memory>>> = OnceLock::new();
    let mut named = NAMED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Arc::new(named.entry(rest(url).to_string()).or_default().clone()))
}

#[cfg(any(feature = "hdfs", feature = "s3", feature = "services"))]
fn far(url: &str) -> Result<Arc<dyn Store>> {
    thalweg_store_object::open(url, &Default::default())
}

#[cfg(not(any(feature = "hdfs", feature = "s3", feature = "services")))]
fn far(url: &str) -> Result<Arc<dyn Store>> {
    Err(Error::new(ErrorKind::Unsupported, format!("this build has no stores far away, such as {url}")))
}

/// The burst buffer of a URL: what `thalweg drain` drains.
///
/// # Errors
/// `Config` for another kind of URL, or stores that can't be a burst buffer; what the stores say.
pub fn tiered(url: &str) -> Result<Tiered> {
    let stores = url.strip_prefix("tiered:").and_then(|stores| stores.split_once("=>"));
    let Some((fast, canonical)) = stores.map(|(fast, canonical)| (fast.trim(), canonical.trim())) else {
        let what = format!("\"{url}\" names no burst buffer: expected tiered:FAST=>CANONICAL, both URLs of stores");
        return Err(Error::new(ErrorKind::Config, what));
    };
    if [fast, canonical].iter().any(|url| url.starts_with("tiered:")) {
        return Err(Error::new(ErrorKind::Config, format!("\"{url}\": a burst buffer within a burst buffer")));
    }
    Tiered::new(open(fast)?, open(canonical)?)
}

/// Whether opening a store asks another machine.
pub(crate) fn is_far(url: &str) -> bool {
    if let Some((fast, canonical)) = url.strip_prefix("tiered:").and_then(|stores| stores.split_once("=>")) {
        return is_far(fast.trim()) || is_far(canonical.trim());
    }
    kind(url).is_ok_and(|kind| std::ptr::fn_addr_eq(kind.open, far as fn(&str) -> Result<Arc<dyn Store>>))
}

fn sequential(url: &str) -> Result<Arc<dyn Store>> {
    // One for the process, as for `memory:`.
    static HDFS: OnceLock<Sequential> = OnceLock::new();
    static S3: OnceLock<Sequential> = OnceLock::new();
    match rest(url) {
        "hdfs" => Ok(Arc::new(HDFS.get_or_init(Sequential::like_hdfs).clone())),
        "s3" => Ok(Arc::new(S3.get_or_init(Sequential::like_s3).clone())),
        _ => Err(Error::new(ErrorKind::Config, format!("\"{url}\": expected sequential:hdfs or sequential:s3"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_store::StoreExt;

    #[test]
    fn a_name_of_a_store_in_memory_is_the_same_store_in_the_whole_process() {
        open("memory:kept").unwrap().write_all("a", b"bytes").unwrap();
        assert_eq!(open("memory:kept").unwrap().read_all("a").unwrap(), b"bytes");
        assert!(!open("memory:other").unwrap().exists("a").unwrap());
    }

    #[test]
    fn a_burst_buffer_is_two_stores() {
        let store = open("tiered:memory:fast => memory:slow").unwrap();
        store.write_all("a", b"bytes").unwrap();
        assert_eq!(open("memory:fast").unwrap().read_all("a").unwrap(), b"bytes");
        assert!(!open("memory:slow").unwrap().exists("a").unwrap());
        for (wrong, why) in [
            ("tiered:memory:fast", "FAST=>CANONICAL"),
            ("tiered:sequential:s3=>memory:x", "writes at any offset"),
            ("tiered:memory:x=>posx:/tmp", "\"posix\""),
        ] {
            let error = open(wrong).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Config, "{wrong}");
            assert!(error.to_string().contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn an_unknown_store_is_told_with_the_nearest_known_one() {
        let error = open("posx:/tmp").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("\"posix\""), "{error}");
        assert!(open("/tmp").err().unwrap().to_string().contains("names no store"));
        assert!(open("posix:scratch").err().unwrap().to_string().contains("relative"));
    }
}
