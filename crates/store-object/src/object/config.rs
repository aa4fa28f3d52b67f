//! Makes a client from an address: service, bucket, credentials.

use super::error::{self, Scrub};
use crate::parameters::{ENDPOINT, REGION, VIRTUAL_HOST};
use opendal::Operator;
use thalweg_params::Parameters;
use thalweg_store::name;
use thalweg_types::{Error, Result};

/// Has TLS done by `ring` in this process. To be called before an operator is made: a client of OpenDAL panics without.
pub fn use_ring() {
    // An error means that there is a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A client for the service of an address. Credentials are read where the service's own programs read them.
///
/// # Errors
/// `Config` for a wrong address or parameter, or missing credentials; `Unsupported` for a service that this build lacks.
pub fn operator(address: &str, parameters: &Parameters, scrub: &Scrub) -> Result<Operator> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (bucket, folder) = rest.split_once('/').unwrap_or((rest, ""));
    let folder = name::relative(folder.trim_matches('/')).map_err(|e| parameters.wrong(e))?.into_owned();
    if bucket.is_empty() {
        return Err(parameters.wrong("names no bucket"));
    }
    let endpoint = parameters.text(&ENDPOINT).map(str::to_string);
    let known = ["http://", "https://", "ssh://"];
    if endpoint.as_ref().is_some_and(|url| !known.iter().any(|known| url.starts_with(known))) {
        return Err(parameters.wrong("endpoint: neither http://... nor https://..."));
    }
    let failed =
        |cause: opendal::Error| -> Error { error::failed(scrub, &format!("configure store \"{address}\""), &cause) };
    use_ring();
    match scheme {
        #[cfg(feature = "s3")]
        "s3" => {
            let mut builder = opendal::services::S3::default().bucket(bucket).root(&format!("/{folder}"));
            if let Some(endpoint) = &endpoint {
                builder = builder.endpoint(endpoint);
            }
            let region = parameters.text(&REGION);
            let known = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().any(|key| std::env::var_os(key).is_some());
            match (region, known) {
                (Some(region), _) => builder = builder.region(region),
                (None, true) => {}
                (None, false) => return Err(parameters.wrong("region: not given, and AWS_REGION is not set")),
            }
            if parameters.get(&VIRTUAL_HOST)? {
                builder = builder.enable_virtual_host_style();
            }
            Ok(Operator::new(builder).map_err(failed)?.finish())
        }
        #[cfg(feature = "services")]
        "gcs" => {
            let mut builder = opendal::services::Gcs::default().bucket(bucket).root(&format!("/{folder}"));
            if let Some(endpoint) = &endpoint {
                builder = builder.endpoint(endpoint);
            }
            Ok(Operator::new(builder).map_err(failed)?.finish())
        }
        #[cfg(feature = "services")]
        "azblob" => {
            let mut builder = opendal::services::Azblob::default().container(bucket).root(&format!("/{folder}"));
            if let Some(endpoint) = &endpoint {
                builder = builder.endpoint(endpoint);
            }
            // The library does not read these two from the environment.
            if let Ok(account) = std::env::var("AZBLOB_ACCOUNT_NAME") {
                builder = builder.account_name(&account);
            }
            if let Ok(key) = std::env::var("AZBLOB_ACCOUNT_KEY") {
                builder = builder.account_key(&key);
            }
            Ok(Operator::new(builder).map_err(failed)?.finish())
        }
        #[cfg(feature = "services")]
        "sftp" => {
            // User, key and known hosts come from the configuration of the machine's ssh.
            let endpoint = endpoint.unwrap_or_else(|| format!("ssh://{bucket}"));
            let builder = opendal::services::Sftp::default().endpoint(&endpoint).root(&format!("/{folder}"));
            Ok(Operator::new(builder).map_err(failed)?.finish())
        }
        #[cfg(feature = "services")]
        "swift" => {
            let mut builder = opendal::services::Swift::default().container(bucket).root(&format!("/{folder}"));
            if let Some(endpoint) = &endpoint {
                builder = builder.endpoint(endpoint);
            }
            if let Ok(token) = std::env::var("OS_TOKEN") {
                builder = builder.token(&token);
            }
            Ok(Operator::new(builder).map_err(failed)?.finish())
        }
        #[cfg(feature = "services")]
        "webdav" => {
            let endpoint = endpoint.unwrap_or_else(|| format!("https://{bucket}"));
            let mut builder = opendal::services::Webdav::default().endpoint(&endpoint).root(&format!("/{folder}"));
            if let Ok(user) = std::env::var("WEBDAV_USER") {
                builder = builder.username(&user);
            }
            if let Ok(password) = std::env::var("WEBDAV_PASSWORD") {
                builder = builder.password(&password);
            }
            Ok(Operator::new(builder).map_err(failed)?.finish())
        }
        _ => Err(failed(opendal::Error::new(opendal::ErrorKind::Unsupported, "no such service in this build"))),
    }
}
