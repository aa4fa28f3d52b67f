//! Parameters of far stores, declared for mounts, help and guide; credentials are not parameters.

use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_params::{Parameter, Parameters, Unit};
use thalweg_types::Result;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
const MINUTE: Duration = Duration::from_secs(60);

/// `timeout` of every store.
pub const TIMEOUT: Parameter =
    Parameter::time("timeout", MINUTE, Unit::Seconds, "longest time of one request").lasting(SECOND, DAY);
/// `replication` of HDFS.
pub const REPLICATION: Parameter = Parameter::count(
    "replication",
    0,
    "number of data nodes that hold each block. With a single copy each close waits for a data node's report, and asks for it every half second: a container takes 2 s where it takes 0.1 s with two",
)
.within(1, 512)
.or_else("the cluster's");
/// `block` of HDFS.
pub const BLOCK: Parameter = Parameter::size("block", 0, "length of a block, a multiple of 512 bytes")
    .within(1 << 20, 1 << 40)
    .or_else("the cluster's");
/// `web` of HDFS.
pub const WEB: Parameter = Parameter::text(
    "web",
    "http://host:port, or none",
    "address of WebHDFS, through which readers see an object that is still being written",
)
.or_else("the configuration's");
/// `user` of HDFS.
pub const USER: Parameter = Parameter::text("user", "a user name", "user, without Kerberos")
    .or_else("HADOOP_USER_NAME, else the user of the process");
/// `settle` of HDFS.
pub const SETTLE: Parameter =
    Parameter::time("settle", MINUTE, Unit::Seconds, "longest time for recovering the object of a writer that died")
        .lasting(SECOND, DAY);
/// `endpoint` of S3 and other services.
pub const ENDPOINT: Parameter =
    Parameter::text("endpoint", "http://host:port or https://...", "address of the service")
        .or_else("the service's own; AWS_ENDPOINT_URL for S3");
/// `region` of S3.
pub const REGION: Parameter =
    Parameter::text("region", "a region", "region of the bucket").or_else("AWS_REGION or AWS_DEFAULT_REGION");
/// `part` of S3 and other services.
pub const PART: Parameter =
    Parameter::size("part", 16 << 20, "length of a part of an upload; an object has at most 10,000 parts")
        .within(5 << 20, 1 << 30);
/// `concurrent` of S3 and other services.
pub const CONCURRENT: Parameter =
    Parameter::count("concurrent", 2, "parts of an object that are sent at the same time").within(1, 64);
/// `retries` of S3 and other services.
pub const RETRIES: Parameter = Parameter::count("retries", 5, "how often a failed request is repeated").within(0, 100);
/// `virtual_host` of S3.
pub const VIRTUAL_HOST: Parameter =
    Parameter::switch("virtual_host", false, "puts the bucket into the host name of requests");

/// Parameters of HDFS.
pub const HDFS: &[Parameter] = &[REPLICATION, BLOCK, WEB, USER, TIMEOUT, SETTLE];
/// Parameters of S3 and compatible services.
pub const S3: &[Parameter] = &[ENDPOINT, REGION, PART, CONCURRENT, RETRIES, TIMEOUT, VIRTUAL_HOST];
/// Parameters of other services.
pub const SERVICES: &[Parameter] = &[ENDPOINT, PART, CONCURRENT, RETRIES, TIMEOUT];

/// Checks the parameters of a store.
///
/// - `store`: its address, for messages.
///
/// # Errors
/// `Config` for an unknown key, naming the nearest known one, or an invalid value. Values of possible credentials are not repeated.
pub fn checked(store: &str, checked_s3: &BTreeMap<String, String>, known: &[Parameter]) -> Result<Parameters> {
    let parameters: Parameters = checked_s3.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let parameters = parameters.of(format!("store \"{store}\""));
    let secret = |key: &str| {
        ["secret", "token", "password", "access_key", "credential"]
            .iter()
            .any(|part| key.to_ascii_lowercase().contains(part))
    };
    if let Some(key) = checked_s3.keys().find(|key| !known.iter().any(|p| p.is(key)) && secret(key)) {
        return Err(parameters.wrong(format!(
            "parameter {key}: credentials come from the environment or the service's own files, see docs/guide/stores.md"
        )));
    }
    parameters.check_known(known)?;
    for parameter in known {
        parameters.check(parameter)?;
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_params::{Default, Value};

    fn checked_s3(pairs: &[(&str, &str)]) -> Result<Parameters> {
        let pairs = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        checked("s3://bucket", &pairs, S3)
    }

    #[test]
    fn what_is_unknown_or_out_of_bounds_is_told_with_the_store() {
        let error = checked_s3(&[("part", "5")]).unwrap_err().to_string();
        for told in ["s3://bucket", "part=5", "from 5 MiB to 1 GiB"] {
            assert!(error.contains(told), "{error}");
        }
        let error = checked_s3(&[("parts", "6")]).unwrap_err().to_string();
        assert!(error.contains("unknown parameter parts; nearest known name: part; known are endpoint"), "{error}");
        let parameters = checked_s3(&[("virtual_host", "yes"), ("timeout", "7"), ("part", "8MB")]).unwrap();
        assert!(parameters.get::<bool>(&VIRTUAL_HOST).unwrap());
        assert_eq!(parameters.get::<Duration>(&TIMEOUT).unwrap(), Duration::from_secs(7));
        assert_eq!(parameters.get::<usize>(&PART).unwrap(), 8 << 20);
    }

    #[test]
    fn credentials_are_no_parameters_and_are_not_repeated() {
        let error = checked_s3(&[("secret_access_key", "open-sesame")]).unwrap_err().to_string();
        assert!(error.contains("environment") && !error.contains("sesame"), "{error}");
    }

    #[test]
    fn every_default_is_one_that_the_parameter_takes() {
        for parameter in HDFS.iter().chain(S3).chain(SERVICES) {
            if let Default::Fixed(value) = parameter.default {
                assert_eq!(parameter.read(&parameter.default_text()), Ok(value), "{}", parameter.key);
                assert!(!matches!(value, Value::Text(_)));
            }
        }
    }
}
