//! Failed rows of a file, which a second file corrects.

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::json;

use super::Caller;
use crate::raw::id;

/// Note of a row that fails.
pub(super) const WRONG: &str = "wrong";

impl Caller {
    /// Imports a file of ten rows, of which three fail, and their correction. Each corrected row supersedes one.
    pub(super) async fn corrected(&self, n: usize) -> Result<()> {
        let rows = (0..10).map(|row| format!("{row},{}\n", if row % 4 == 1 { WRONG } else { "right" }));
        let file: String = std::iter::once("n,note\n".to_owned()).chain(rows).collect();
        let first = self.import(n, "original", &file, None).await?;
        let failures = format!("/jobs/{first}/failures?format=csv");
        let failures = self.send_until_answered(Method::GET, &failures, None, None).await?;
        ensure!(failures.status == 200, "{}", failures.text);
        let fixed = failures.text.replace(WRONG, "corrected");
        let second = self.import(n, "correction", &fixed, Some(&first)).await?;
        let path = format!("/jobs/{first}");
        self.until("corrected rows", async || Ok(self.get(&path).await?["counts"]["superseded"].as_i64() >= Some(3)))
            .await?;
        let counts = self.get(&path).await?["counts"].clone();
        let once = counts["superseded"] == 3 && counts["dead"] == 0 && counts["cancelled"] == 3;
        self.confirm(once, &format!("three corrected rows: {counts}"))?;
        let counts = self.get(&format!("/jobs/{second}")).await?["counts"].clone();
        self.confirm(counts["succeeded"] == 3, &format!("a file of three corrected rows: {counts}"))
    }

    /// Creates a tree from a file, and processes it.
    async fn import(&self, n: usize, what: &str, text: &str, corrects: Option<&str>) -> Result<String> {
        let (name, upload) = (format!("{what}-{n}"), self.in_one(text, &format!("{what}-{n}")).await?);
        let mut tree = json!({"type": "action", "name": name, "sealed": true, "upload": {"id": upload}});
        if let Some(corrects) = corrects {
            tree["metadata"] = json!({"corrects": corrects});
        }
        let job = id(&self.post("/jobs", &tree, &name).await?)?.to_owned();
        self.work(&job).await?;
        Ok(job)
    }
}
