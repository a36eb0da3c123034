//! Settings of uploaded files: storage, size limits, and lifetime of unused uploads.
//!
//! The S3 variables have the names that other programs use; other credentials (roles of machines and containers) are
//! read from the environment by the store's own library.

use super::{Secret, Size};

/// Settings of the file store.
#[derive(Clone, Debug, clap::Args)]
pub struct FileSettings {
    /// Storage of uploads: s3://bucket/prefix, in any S3-compatible store.
    /// Default: the folder `files` in the data folder
    #[arg(long, env = "TREELINE_STORE_URL")]
    pub store_url: Option<String>,

    /// S3: endpoint other than Amazon's, such as http://127.0.0.1:9000
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    pub store_endpoint: Option<String>,

    /// S3: region
    #[arg(long, env = "AWS_REGION")]
    pub store_region: Option<String>,

    /// S3: access key id
    #[arg(long, env = "AWS_ACCESS_KEY_ID")]
    pub store_key_id: Option<String>,

    /// S3: secret access key
    #[arg(long, env = "AWS_SECRET_ACCESS_KEY", hide_env_values = true)]
    pub store_key: Option<Secret>,

    /// Largest workbook (XLSX)
    #[arg(long, env = "TREELINE_XLSX_LIMIT", default_value = "50MiB")]
    pub xlsx_limit: Size,

    /// Free disk space to keep where uploads are stored in a folder; below it: 507 `insufficient_storage`
    #[arg(long, env = "TREELINE_DISK_RESERVE", default_value = "1GiB")]
    pub disk_reserve: Size,

    /// Lifetime in seconds of an upload that no job was created from
    #[arg(long, env = "TREELINE_UPLOAD_TTL_SECONDS", default_value_t = 86_400)]
    pub upload_ttl_seconds: u32,
}

impl Default for FileSettings {
    fn default() -> Self {
        Self {
            store_url: None,
            store_endpoint: None,
            store_region: None,
            store_key_id: None,
            store_key: None,
            xlsx_limit: Size(50 << 20),
            disk_reserve: Size(1 << 30),
            upload_ttl_seconds: 86_400,
        }
    }
}
