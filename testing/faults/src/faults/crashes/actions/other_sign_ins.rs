//! Sign-ins by an identity provider and by a proxy, which create accounts or find existing ones.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use reqwest::{Method, header::LOCATION};
use serde_json::{Value, json};

use super::{Caller, TIMEOUT, identity_provider::NAME, sessions::cookie};
use crate::raw::id;

/// Header in which a proxy names the person.
pub(in super::super) const PROXY_HEADER: &str = "x-forwarded-user";

impl Caller {
    /// Signs in by a provider: a new person, and an existing one, whose connection is then removed.
    pub(super) async fn identity_provider(&self, n: usize) -> Result<()> {
        let new = format!("new person {n}");
        let claims = [("sub", json!(format!("new-{n}"))), ("name", json!(new))];
        let me = self.signed_in_by_provider(&claims).await?.get("/me").await?;
        self.confirm(me["name"] == new.as_str(), "a sign-in by a provider")?;
        self.only_account("name", &new).await?;

        let (person, subject) = (self.person(n).await?, format!("existing-{n}"));
        let claims = [("sub", json!(subject)), ("email", json!(person.email)), ("email_verified", json!(true))];
        let signed_in = self.signed_in_by_provider(&claims).await?;
        let me = signed_in.get("/me").await?;
        self.confirm(me["name"] == person.name.as_str(), "a sign-in by a verified email address")?;
        let connections = signed_in.get("/me/connections").await?["data"].clone();
        let one = connections.as_array().is_some_and(|all| all.len() == 1) && connections[0]["subject"] == subject;
        self.confirm(one, &format!("one connection: {connections}"))?;
        let path = format!("/me/connections/{}", id(&connections[0])?);
        signed_in.send_idempotent(Method::DELETE, &path, None, &[]).await?;
        let left = signed_in.get("/me/connections").await?;
        self.confirm(left["data"].as_array().is_some_and(Vec::is_empty), "a removed connection")
    }

    /// Goes to the provider and back, again after a crash on the way, because each state is accepted once.
    async fn signed_in_by_provider(&self, claims: &[(&str, Value)]) -> Result<Self> {
        let began = Instant::now();
        loop {
            let left = self.page(&format!("/sign-in/oidc/{NAME}"), &[]).await?;
            if let Some(url) = left.headers().get(LOCATION) {
                let query = self.shared.environment.identity_provider.grant(url.to_str()?, claims)?;
                let state = cookie(&left, "treeline_oidc")?;
                let path = format!("/sign-in/oidc/{NAME}/callback?{query}");
                let back = self.page(&path, &[("cookie", &state), ("sec-fetch-site", "cross-site")]).await?;
                if back.status() == 303 {
                    return self.in_session(&back, None);
                }
                ensure!(back.status() == 401 && began.elapsed() < TIMEOUT, "a provider's answer: {back:?}");
            }
            ensure!(began.elapsed() < TIMEOUT, "the way to a provider: {left:?}");
        }
    }

    /// Signs in a new person by a proxy, twice.
    pub(super) async fn proxy_sign_in(&self, n: usize) -> Result<()> {
        let name = format!("proxied-{n}");
        for _ in 0..2 {
            let answer = self.page("/sign-in", &[(PROXY_HEADER, &name)]).await?;
            let me = self.in_session(&answer, Some(&name)).context("by a proxy")?.get("/me").await?;
            self.confirm(me["name"] == name.as_str(), "a sign-in by a proxy")?;
        }
        self.only_account("name", &name).await.map(drop)
    }
}
