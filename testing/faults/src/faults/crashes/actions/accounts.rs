//! People, services and tokens: created, changed, revoked.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Caller, TIMEOUT};
use crate::raw::{Api, id};

impl Caller {
    /// Creates a person, changes the role, signs in by password and by link, and signs out.
    pub(super) async fn people(&self, n: usize) -> Result<()> {
        let person = self.person(n).await?;
        let path = format!("/users/{}", person.id);
        self.send_idempotent(Method::PATCH, &path, Some(&json!({"role": "support"})), &[]).await?;
        let now = self.get(&path).await?;
        self.confirm(now["role"] == "support", "a person's role")?;
        self.signed_in(&person).await?;
        let link = self
            .send_until_answered(Method::POST, &format!("{path}/sign-in-link"), Some(&json!({})), None)
            .await?
            .ok()?;
        // 410 if an earlier attempt used it, whose server crashed before it responded.
        let answer = self.sign_in(&json!({"link": link["url"]})).await?;
        ensure!([204, 410].contains(&answer.status().as_u16()), "a link: {answer:?}");
        self.send_idempotent(Method::DELETE, &format!("{path}/sessions"), None, &[]).await?;
        let open = self.get(&format!("{path}/sessions")).await?;
        self.confirm(open["data"].as_array().is_some_and(Vec::is_empty), "sessions that were ended")
    }

    /// Creates a service and a token, and revokes the token.
    pub(super) async fn tokens(&self, n: usize) -> Result<()> {
        let service = format!("service-{n}");
        self.send_idempotent(Method::POST, "/services", Some(&json!({"name": service})), &[409]).await?;
        let new = json!({"service": service, "name": "one", "scopes": ["jobs:read"]});
        let made = self.send_until_answered(Method::POST, "/tokens", Some(&new), None).await?.ok()?;
        let secret = made["secret"].as_str().or(made["token"].as_str()).context("a secret")?.to_owned();
        let token = id(&made).map(str::to_owned);
        let token = token.or_else(|_| id(&made["token"]).map(str::to_owned))?;
        self.send_idempotent(Method::DELETE, &format!("/tokens/{token}"), None, &[404, 410]).await?;
        let began = Instant::now();
        let stranger = Api::new(self.base(n), &secret)?;
        loop {
            match stranger.get("/jobs").await {
                Ok(answer) if answer.status == 401 => return self.confirm(true, "a token that was revoked"),
                last => ensure!(began.elapsed() < TIMEOUT, "a revoked token was accepted: {last:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The account with this value in a field; an error unless there is exactly one among the newest.
    pub(super) async fn only_account(&self, field: &str, value: &str) -> Result<Value> {
        let all = self.get("/users?limit=500").await?;
        let all = all["data"].as_array().context("people")?;
        let found: Vec<&Value> = all.iter().filter(|one| one[field] == value).collect();
        self.confirm(found.len() == 1, &format!("{} accounts with the {field} {value}", found.len()))?;
        Ok(found[0].clone())
    }
}
