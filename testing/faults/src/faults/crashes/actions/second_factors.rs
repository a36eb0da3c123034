//! Second factors: an authenticator app, recovery codes, and their removal by the person and by an admin.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use totp_rs::Totp;

use super::{Caller, TIMEOUT, sessions::Person};
use crate::raw::Answer;

impl Caller {
    /// Adds an authenticator app, uses it for sensitive actions and a sign-in, removes it; adds another one, which an
    /// admin removes.
    pub(super) async fn second_factors(&self, n: usize) -> Result<()> {
        let person = self.person(n).await?;
        let first = self.signed_in(&person).await?;
        first.send_idempotent(Method::POST, "/me/step-up", Some(&json!({"password": person.password})), &[]).await?;
        self.confirm(self.step_ups(&person).await? >= 1, "a step-up by password")?;

        first.add_app().await?;
        let mut codes = first.new_recovery_codes().await?;
        let before = self.step_ups(&person).await?;
        // 422 if an earlier attempt used the code, whose server crashed before it responded.
        first
            .with_code(&mut codes, 422, async |code| {
                first
                    .send_until_answered(Method::POST, "/me/step-up", Some(&json!({"recovery_code": code})), None)
                    .await
            })
            .await?;
        self.confirm(self.step_ups(&person).await? > before, "a step-up by recovery code")?;
        let second = self.signed_in_by_code(&person, &mut codes).await?;
        let left = second.get("/me/factors").await?["recovery_codes_left"].as_u64().context("a number")?;
        self.confirm(left == codes.len() as u64, &format!("{} recovery codes, {left} of them stored", codes.len()))?;

        second.send_idempotent(Method::DELETE, "/me/totp", None, &[]).await?;
        let factors = second.get("/me/factors").await?;
        let none = factors["totp_since"].is_null() && factors["recovery_codes_left"] == 0;
        self.confirm(none, &format!("a removed authenticator app: {factors}"))?;

        second.add_app().await?;
        self.send_idempotent(Method::DELETE, &format!("/users/{}/factors", person.id), None, &[]).await?;
        self.until("the end of a session", async || {
            let answer = second.send_until_answered(Method::GET, "/me", None, None).await?;
            Ok(answer.status == 401)
        })
        .await?;
        let me = self.signed_in(&person).await.context("by password, without a factor")?.get("/me").await?;
        self.confirm(me["name"] == person.name, "factors that an admin removed")
    }

    /// Adds an authenticator app to the caller's account.
    async fn add_app(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            let started = self.send_until_answered(Method::POST, "/me/totp", Some(&json!({})), None).await?.ok()?;
            let app = Totp::from_url(started["otpauth_url"].as_str().context("a URL")?)?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
            let code = json!({"code": app.generate(now).to_string()});
            let confirmed = self.send_until_answered(Method::POST, "/me/totp/confirm", Some(&code), None).await?;
            let stored = !self.get("/me/factors").await?["totp_since"].is_null();
            if confirmed.status < 300 {
                return self.confirm(stored, "an authenticator app");
            }
            // An earlier attempt succeeded, and its server crashed before it responded.
            if stored {
                return Ok(());
            }
            ensure!(began.elapsed() < TIMEOUT, "no code was accepted: {confirmed:?}");
        }
    }

    /// Replaces the recovery codes. Those of an attempt without a response are replaced, too.
    async fn new_recovery_codes(&self) -> Result<Vec<String>> {
        let made = self.send_until_answered(Method::POST, "/me/recovery-codes", Some(&json!({})), None).await?.ok()?;
        let codes = made["recovery_codes"].as_array().context("codes")?.iter();
        let codes: Vec<String> = codes.filter_map(Value::as_str).map(str::to_owned).collect();
        let left = self.get("/me/factors").await?["recovery_codes_left"].as_u64();
        self.confirm(codes.len() == 10 && left == Some(10), "new recovery codes")?;
        Ok(codes)
    }

    async fn signed_in_by_code(&self, person: &Person, codes: &mut Vec<String>) -> Result<Self> {
        while let Some(code) = codes.pop() {
            let mut credentials = person.credentials();
            credentials["recovery_code"] = json!(code);
            let answer = self.sign_in(&credentials).await?;
            match answer.status().as_u16() {
                204 => return self.in_session(&answer, None),
                // An earlier attempt used the code.
                401 => {}
                _ => bail!("a recovery code: {answer:?}"),
            }
        }
        bail!("every recovery code was refused")
    }

    /// Sends one code after the other until one is accepted. `used` is the status of a code that was used before.
    async fn with_code(
        &self,
        codes: &mut Vec<String>,
        used: u16,
        send: impl AsyncFn(&str) -> Result<Answer>,
    ) -> Result<()> {
        while let Some(code) = codes.pop() {
            let answer = send(&code).await?;
            if answer.status != used {
                return answer.ok().map(drop);
            }
        }
        bail!("every recovery code was refused")
    }

    /// Number of recorded step-ups of a person.
    async fn step_ups(&self, person: &Person) -> Result<usize> {
        let entries = self.get("/audit?action=session.step_up&limit=500").await?;
        let entries = entries["data"].as_array().context("entries")?;
        Ok(entries.iter().filter(|entry| entry["actor"]["name"] == person.name.as_str()).count())
    }
}
