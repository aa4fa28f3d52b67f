//! The one table of stores: the name before the first `:` of a URL says which.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use thalweg_schema::report::Problem;
use thalweg_store::wrap::Sequential;
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::{Error, ErrorKind, Result};

/// A kind of store.
pub struct StoreKind {
    /// What its URLs begin with.
    pub scheme: &'static str,
    /// A URL, and what its parts mean.
    pub form: &'static str,
    /// What this build lacks; `None` where the kind is built in.
    pub lacks: Option<&'static str>,
    /// Opens the store of a URL. Stores on a network connect when they are first asked for something.
    pub open: fn(&str) -> Result<Arc<dyn Store>>,
}

/// Every kind.
pub const STORES: &[StoreKind] = &[
    StoreKind {
        scheme: "posix",
        form: "posix:/scratch/a: files below a folder, which is there",
        lacks: None,
        open: posix,
    },
    StoreKind {
        scheme: "memory",
        form: "memory:name: objects in the memory of this process, the same for the same name",
        lacks: None,
        open: memory,
    },
    StoreKind {
        scheme: "sequential",
        form: "sequential:hdfs, sequential:s3: memory that can do no more than HDFS or S3, for trying a mount",
        lacks: None,
        open: sequential,
    },
];

/// Opens the store of a URL.
///
/// # Errors
/// `Config` naming an unknown kind and the nearest known one; `Unsupported` where this build lacks it; what the store says.
pub fn open(url: &str) -> Result<Arc<dyn Store>> {
    let kind = kind(url).map_err(Error::from)?;
    if let Some(lacks) = kind.lacks {
        let what = format!("this build has no store \"{}\": {lacks}", kind.scheme);
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    (kind.open)(url)
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
    fn an_unknown_store_is_told_with_the_nearest_known_one() {
        let error = open("posx:/tmp").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("\"posix\""), "{error}");
        assert!(open("/tmp").err().unwrap().to_string().contains("names no store"));
        assert!(open("posix:scratch").err().unwrap().to_string().contains("relative"));
    }
}
