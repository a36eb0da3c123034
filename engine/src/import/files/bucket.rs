//! Opens a bucket of an S3-compatible store.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use object_store::{ObjectStore, RetryConfig, aws::AmazonS3Builder, path::Path as Key, prefix::PrefixStore};

use crate::settings::files::FileSettings;

/// Time for which a request to the store is repeated: short enough for a server that stops.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);

/// Opens the store at `s3://bucket/prefix`.
pub(super) fn open(url: &str, settings: &FileSettings) -> anyhow::Result<Arc<dyn ObjectStore>> {
    let (bucket, prefix) = divide(url).context("TREELINE_STORE_URL: expected s3://bucket or s3://bucket/prefix")?;
    // One crypto library for the process; an earlier installation is the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig { retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
    if let Some(endpoint) = &settings.store_endpoint {
        let is_plain = endpoint.starts_with("http://");
        ensure!(
            is_plain || endpoint.starts_with("https://"),
            "AWS_ENDPOINT_URL: expected an address that begins with http:// or https://"
        );
        builder = builder.with_endpoint(endpoint).with_allow_http(is_plain);
    }
    if let Some(region) = &settings.store_region {
        builder = builder.with_region(region);
    }
    if let Some(id) = &settings.store_key_id {
        builder = builder.with_access_key_id(id);
    }
    if let Some(key) = &settings.store_key {
        builder = builder.with_secret_access_key(key.reveal());
    }
    let store = builder.build().context("cannot open the file store")?;
    Ok(Arc::new(PrefixStore::new(store, Key::parse(prefix)?)))
}

/// Splits the URL into bucket and prefix.
fn divide(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("s3://")?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    (!bucket.is_empty()).then_some((bucket, prefix.trim_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_bucket_and_a_prefix() {
        assert_eq!(divide("s3://files"), Some(("files", "")));
        assert_eq!(divide("s3://files/treeline/a/"), Some(("files", "treeline/a")));
        for bad in ["files", "http://files", "s3://", "s3:///a"] {
            assert_eq!(divide(bad), None, "{bad}");
        }
    }
}
