//! The one table of stores: the part of a URL before the first `:` selects one.

use crate::draining;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use thalweg_diagnostics::Problem;
use thalweg_params::Parameter;
use thalweg_store::wrap::{Sequential, Tiered};
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// A kind of store.
pub struct StoreKind {
    /// Scheme of its URLs.
    pub scheme: &'static str,
    /// An example URL, and the meaning of its parts.
    pub form: &'static str,
    /// Where its code is.
    pub code: Code,
}

/// Where the code of a kind of store is.
#[derive(Clone, Copy)]
pub enum Code {
    /// In this crate: the function opens the store of a URL.
    Here(fn(&str) -> Result<Arc<dyn Store>>),
    /// In the code given to [`set_far`], if built with this Cargo feature: opening contacts another machine.
    Far(&'static str),
}

impl StoreKind {
    /// Whether opening a store of this kind contacts another machine.
    pub fn is_far(&self) -> bool {
        matches!(self.code, Code::Far(_))
    }

    /// The Cargo feature that this program lacks; `None` if it has the code of this kind.
    pub fn lacks(&self) -> Option<&'static str> {
        match self.code {
            Code::Here(_) => None,
            Code::Far(feature) => FAR.get().is_none_or(|far| far.parameters_of(feature).is_none()).then_some(feature),
        }
    }

    /// Its parameters, which follow a `?` in its URL; none if this program lacks its code.
    pub fn parameters(&self) -> &'static [Parameter] {
        match self.code {
            Code::Here(_) => &[],
            Code::Far(feature) => FAR.get().and_then(|far| far.parameters_of(feature)).unwrap_or(&[]),
        }
    }
}

/// The code of stores on other machines.
pub struct FarStores {
    /// Cargo features that it was built with, and the parameters of each one's stores.
    pub features: &'static [(&'static str, &'static [Parameter])],
    /// Opens the store of a URL. Stores on a network connect at their first operation.
    pub open: fn(&str) -> Result<Arc<dyn Store>>,
}

impl FarStores {
    fn parameters_of(&self, feature: &str) -> Option<&'static [Parameter]> {
        self.features.iter().find(|(name, _)| *name == feature).map(|(_, parameters)| *parameters)
    }
}

static FAR: OnceLock<FarStores> = OnceLock::new();

/// Registers the code of stores on other machines for this process; later calls have no effect.
pub fn set_far(far: FarStores) {
    let _ = FAR.set(far);
}

/// Every kind.
pub const STORES: &[StoreKind] = &[
    here("posix", "posix:/scratch/a: files below an existing folder", posix),
    here("memory", "memory:name: objects in the memory of this process, the same for the same name", memory),
    here(
        "sequential",
        "sequential:hdfs, sequential:s3: memory with the capabilities of HDFS or S3, for trying a mount",
        sequential,
    ),
    here(
        TIERED,
        "tiered:posix:/nvme/runs=>hdfs://namenode:8020/runs: a burst buffer: the fast store, then the canonical store",
        |url| Ok(Arc::new(tiered(url)?)),
    ),
    far("hdfs", "hdfs://namenode:8020/runs: HDFS; parameters after ?, see docs/guide/stores.md", HDFS),
    far("viewfs", "viewfs://cluster/runs: HDFS through its mount table", HDFS),
    far("s3", "s3://bucket/runs: S3 and compatible services", S3),
    far("gcs", "gcs://bucket/runs: Google Cloud Storage", SERVICES),
    far("azblob", "azblob://container/runs: Azure Blob Storage", SERVICES),
    far("sftp", "sftp://host/runs: files of another machine, through ssh", SERVICES),
    far("swift", "swift://container/runs: OpenStack Swift", SERVICES),
    far("webdav", "webdav://host/runs: WebDAV", SERVICES),
];

/// The scheme of burst buffers.
const TIERED: &str = "tiered";
/// The Cargo feature of HDFS.
pub const HDFS: &str = "hdfs";
/// The Cargo feature of S3.
pub const S3: &str = "s3";
/// The Cargo feature of the other services.
pub const SERVICES: &str = "services";

const fn here(scheme: &'static str, form: &'static str, open: fn(&str) -> Result<Arc<dyn Store>>) -> StoreKind {
    StoreKind { scheme, form, code: Code::Here(open) }
}

const fn far(scheme: &'static str, form: &'static str, feature: &'static str) -> StoreKind {
    StoreKind { scheme, form, code: Code::Far(feature) }
}

/// Opens the store of a URL.
///
/// # Errors
/// `Config` names an unknown kind and the nearest known one; `Unsupported` if this build lacks the kind; those of the store.
pub fn open(url: &str) -> Result<Arc<dyn Store>> {
    let kind = kind(url).map_err(Error::from)?;
    let url = &*spelled(url);
    match (kind.code, kind.lacks(), FAR.get()) {
        (Code::Here(open), ..) => open(url),
        (Code::Far(_), None, Some(far)) => (far.open)(url),
        (Code::Far(feature), ..) => {
            let scheme = kind.scheme;
            let what = format!("this build has no store \"{scheme}\": it was made without the feature \"{feature}\"");
            Err(Error::new(ErrorKind::Unsupported, what))
        }
    }
}

/// Like [`open`], for a mount.
///
/// - `drains`: a burst buffer's drain starts automatically: [`draining`].
pub(crate) fn open_to_mount(url: &str, drains: bool) -> Result<Arc<dyn Store>> {
    if !drains || !is_tiered(url) {
        return open(url);
    }
    let store = tiered(url)?;
    draining::after_close(&store, url);
    Ok(Arc::new(store))
}

/// A URL with the scheme as [`STORES`] spells it: schemes are read without regard to case, and the code of stores compares them. In
/// the URL of a burst buffer, those of its two stores likewise. URLs of unknown kinds stay.
pub(crate) fn spelled(url: &str) -> Cow<'_, str> {
    let Ok(kind) = kind(url) else { return url.into() };
    match tiers(url) {
        Some((fast, canonical)) => format!("{TIERED}:{}=>{}", spelled(fast), spelled(canonical)).into(),
        None if url.starts_with(kind.scheme) => url.into(),
        None => format!("{}:{}", kind.scheme, rest(url)).into(),
    }
}

/// Whether a URL names a burst buffer.
pub(crate) fn is_tiered(url: &str) -> bool {
    kind(url).is_ok_and(|kind| kind.scheme == TIERED)
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

/// The URLs of a burst buffer's two stores, the fast one first.
fn tiers(url: &str) -> Option<(&str, &str)> {
    let (fast, canonical) = rest(url).split_once("=>").filter(|_| is_tiered(url))?;
    Some((fast.trim(), canonical.trim()))
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
    let mut named = NAMED.get_or_init(Mutex::default).lock();
    Ok(Arc::new(named.entry(rest(url).to_string()).or_default().clone()))
}

/// The burst buffer of a URL, for `thalweg drain`.
///
/// # Errors
/// `Config` for another kind of URL, or stores that cannot form a burst buffer; those of the stores.
pub fn tiered(url: &str) -> Result<Tiered> {
    let Some((fast, canonical)) = tiers(url) else {
        let what = format!("\"{url}\" names no burst buffer: expected tiered:FAST=>CANONICAL, both URLs of stores");
        return Err(Error::new(ErrorKind::Config, what));
    };
    if is_tiered(fast) || is_tiered(canonical) {
        return Err(Error::new(ErrorKind::Config, format!("\"{url}\": a burst buffer within a burst buffer")));
    }
    Tiered::new(open(fast)?, open(canonical)?)
}

/// Whether opening a store contacts another machine.
pub(crate) fn is_far(url: &str) -> bool {
    if let Some((fast, canonical)) = tiers(url) {
        return is_far(fast) || is_far(canonical);
    }
    kind(url).is_ok_and(StoreKind::is_far)
}

fn sequential(url: &str) -> Result<Arc<dyn Store>> {
    // One per process, as for `memory:`.
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
    fn the_case_of_a_scheme_does_not_matter() {
        assert_eq!(spelled("HDFS://Node:8020/Runs"), "hdfs://Node:8020/Runs");
        assert_eq!(spelled("Tiered:POSIX:/A => S3://Bucket"), "tiered:posix:/A=>s3://Bucket");
        assert_eq!(spelled("POSX:/tmp"), "POSX:/tmp");
        open("TIERED:Memory:Fast=>MEMORY:Slow").unwrap().write_all("a", b"bytes").unwrap();
        assert_eq!(open("memory:Fast").unwrap().read_all("a").unwrap(), b"bytes");
        assert!(is_far("Tiered:posix:/a=>S3://bucket") && !is_far("POSIX:/a"));
        assert!(open("tiered:memory:a=>Tiered:memory:b=>memory:c").is_err());
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
