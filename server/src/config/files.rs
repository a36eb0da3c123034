//! Where uploaded files are kept, how large they may be, and for how long they stay unused.
//!
//! The variables of the S3 store are those that other programs know; what is not among them (roles of
//! machines and containers) the store's own library finds in the environment.

use super::{Secret, Size};

/// The settings of the file store.
#[derive(Clone, Debug, clap::Args)]
pub struct FileSettings {
    /// Where uploads are kept: s3://bucket/prefix, in any S3-compatible store.
    /// Default: the folder `files` under the data folder
    #[arg(long, env = "TREELINE_STORE_URL")]
    pub store_url: Option<String>,

    /// S3: another store than Amazon's, such as http://127.0.0.1:9000
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    pub store_endpoint: Option<String>,

    /// S3: the region
    #[arg(long, env = "AWS_REGION")]
    pub store_region: Option<String>,

    /// S3: whose key
    #[arg(long, env = "AWS_ACCESS_KEY_ID")]
    pub store_key_id: Option<String>,

    /// S3: the key
    #[arg(long, env = "AWS_SECRET_ACCESS_KEY", hide_env_values = true)]
    pub store_key: Option<Secret>,

    /// The largest workbook (XLSX)
    #[arg(long, env = "TREELINE_XLSX_LIMIT", default_value = "50MiB")]
    pub xlsx_limit: Size,

    /// Disk that uploads leave free, where they are kept in a folder; beyond it: 507 `insufficient_storage`
    #[arg(long, env = "TREELINE_DISK_RESERVE", default_value = "1GiB")]
    pub disk_reserve: Size,

    /// How long an upload stays that no job was made of, in seconds
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
