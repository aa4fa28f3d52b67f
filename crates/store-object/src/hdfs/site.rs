//! Addresses of WebHDFS in Hadoop's XML configuration; the native client reads the rest of the configuration.

use std::path::PathBuf;

/// Addresses of the name nodes' WebHDFS, `http://host:port`; empty if the configuration has none.
///
/// - `authority`: `host:port` or name service of the store's address; its host stands for `0.0.0.0`.
pub fn web_addresses(authority: &str) -> Vec<String> {
    let folder = match (std::env::var_os("HADOOP_CONF_DIR"), std::env::var_os("HADOOP_HOME")) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, Some(home)) => PathBuf::from(home).join("etc/hadoop"),
        (None, None) => return Vec::new(),
    };
    // The native client reports a missing or broken configuration.
    let Ok(text) = std::fs::read_to_string(folder.join("hdfs-site.xml")) else { return Vec::new() };
    in_site(&text, authority)
}

fn in_site(text: &str, authority: &str) -> Vec<String> {
    let Ok(site) = roxmltree::Document::parse(text) else { return Vec::new() };
    let properties = site.descendants().filter(|node| node.has_tag_name("property"));
    let mut found = Vec::new();
    for property in properties {
        let of = |tag: &str| property.children().find(|node| node.has_tag_name(tag)).and_then(|node| node.text());
        let (Some(key), Some(value)) = (of("name").map(str::trim), of("value").map(str::trim)) else { continue };
        match (key, value) {
            ("dfs.webhdfs.enabled", "false") | ("dfs.http.policy", "HTTPS_ONLY") => return Vec::new(),
            _ if key == "dfs.namenode.http-address" || key.starts_with("dfs.namenode.http-address.") => {
                let host = authority.split(':').next().unwrap_or_default();
                found.push(format!("http://{}", value.replacen("0.0.0.0", host, 1)));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_node_with_a_web_face_is_found() {
        let site = |more: &str| {
            format!(
                "<?xml version=\"1.0\"?><configuration>
                 <property><name>dfs.namenode.http-address.runs.a</name><value> one:9870 </value></property>
                 <property><name>dfs.namenode.http-address.runs.b</name><value>0.0.0.0:9871</value></property>
                 <property><name>dfs.namenode.https-address</name><value>one:9872</value></property>
                 <property><name>dfs.replication</name></property>{more}</configuration>"
            )
        };
        assert_eq!(in_site(&site(""), "two:8020"), ["http://one:9870", "http://two:9871"]);
        let off = "<property><name>dfs.webhdfs.enabled</name><value>false</value></property>";
        assert!(in_site(&site(off), "two:8020").is_empty());
        assert!(in_site("no XML", "two").is_empty());
    }
}
