//! Translation of OpenDAL's errors, without credentials: the only place that knows its codes.

use std::fmt;
use thalweg_types::{Error, ErrorKind};

/// Environment variables that hold credentials.
const SECRETS: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZBLOB_ACCOUNT_KEY",
    "AZURE_CLIENT_SECRET",
    "GOOGLE_APPLICATION_CREDENTIALS_JSON",
    "OS_TOKEN",
    "OS_PASSWORD",
    "SWIFT_TOKEN",
    "WEBDAV_PASSWORD",
];

/// Removes credentials from texts, in case a service repeats its request.
#[derive(Clone, Default)]
pub struct Scrub(Vec<String>);

impl Scrub {
    /// With the credentials of the environment.
    pub fn from_environment() -> Scrub {
        Scrub::of(SECRETS.iter().filter_map(|key| std::env::var(key).ok()))
    }

    /// Values of fewer than eight bytes are left out: they may be parts of ordinary words.
    fn of(secrets: impl Iterator<Item = String>) -> Scrub {
        Scrub(secrets.filter(|secret| secret.len() >= 8).collect())
    }

    fn clean(&self, text: &str) -> String {
        let mut text = text.to_string();
        for secret in &self.0 {
            text = text.replace(secret.as_str(), "***");
        }
        // Signatures of requests that a service quotes.
        for mark in ["Signature=", "Credential=", "X-Amz-Security-Token=", "sig=", "<AWSAccessKeyId>", "<StringToSign>"]
        {
            let mut from = 0;
            while let Some(at) = text[from..].find(mark).map(|at| from + at + mark.len()) {
                let end =
                    text[at..].find(|c: char| c.is_whitespace() || "&<,\"".contains(c)).map_or(text.len(), |n| at + n);
                text.replace_range(at..end, "***");
                from = at + 3;
            }
        }
        text
    }
}

/// The service's text, without credentials.
#[derive(Debug)]
struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Translates an error.
///
/// - `what`: completes "cannot ...".
pub fn failed(scrub: &Scrub, what: &str, cause: &opendal::Error) -> Error {
    use opendal::ErrorKind as K;
    let kind = match cause.kind() {
        K::NotFound => ErrorKind::NotFound,
        K::PermissionDenied => ErrorKind::PermissionDenied,
        // The only condition used is that the name is free.
        K::AlreadyExists | K::ConditionNotMatch => ErrorKind::AlreadyExists,
        // The service takes the name for a folder, or a part of it for an object.
        K::IsADirectory | K::IsSameFile => ErrorKind::InvalidArgument,
        K::NotADirectory => ErrorKind::NotFound,
        K::ConfigInvalid => ErrorKind::Config,
        K::Unsupported => ErrorKind::Unsupported,
        K::RangeNotSatisfied => ErrorKind::OutOfBounds,
        _ if cause.message().contains("timeout") => ErrorKind::Timeout,
        _ => ErrorKind::Io,
    };
    // The library's own text repeats addresses, headers and requests.
    let mut text = scrub.clean(cause.message());
    let mut below = std::error::Error::source(cause);
    while let Some(source) = below {
        text.push_str(": ");
        text.push_str(&scrub.clean(&source.to_string()));
        below = source.source();
    }
    const MOST: usize = 500;
    if let Some((end, _)) = text.char_indices().nth(MOST) {
        text.truncate(end);
        text.push('…');
    }
    Error::new(kind, format!("cannot {what}")).caused_by(Failure(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_repeats_a_credential() {
        let scrub = Scrub::of(["open-sesame".to_string(), "AKIA12345678".to_string()].into_iter());
        let said = "denied: <AWSAccessKeyId>OTHERKEY</AWSAccessKeyId> open-sesame AKIA12345678 \
                    Authorization: Credential=me/2026, Signature=0123abcd";
        let cause = opendal::Error::new(opendal::ErrorKind::PermissionDenied, said)
            .with_context("uri", "https://bucket/?X-Amz-Signature=0123abcd")
            .set_source(std::io::Error::other("sent open-sesame"));
        let error = failed(&scrub, "open", &cause);
        for text in [error.to_string(), format!("{error:?}")] {
            for secret in ["sesame", "AKIA1", "OTHERKEY", "0123abcd", "me/2026"] {
                assert!(!text.contains(secret), "{secret} in {text}");
            }
        }
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("denied"));
    }
}
