//! OpenID Connect provider that signs in everyone. Its pages are left out: the action reads the URL to which the server
//! sends the browser, and brings the code back.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context as _, Result};
use axum::{
    Form, Json, Router,
    extract::State,
    http::StatusCode,
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _, SigningKey as _};
use reqwest::Url;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::{net::TcpListener, task::JoinHandle};

/// Name of the provider in the settings of the servers.
pub(super) const NAME: &str = "idp";
const CLIENT_ID: &str = "treeline";

/// A provider that listens until it is dropped.
pub(in super::super) struct IdentityProvider {
    state: Arc<ProviderState>,
    task: JoinHandle<()>,
}

struct ProviderState {
    issuer: String,
    key: KeyPair,
    /// Claims of each code that was not used yet.
    grants: Mutex<HashMap<String, Value>>,
}

impl IdentityProvider {
    pub(in super::super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let issuer = format!("http://{}", listener.local_addr()?);
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let state = Arc::new(ProviderState { issuer, key, grants: Mutex::default() });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .with_state(Arc::clone(&state));
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { state, task })
    }

    /// URL of the provider.
    pub(in super::super) fn issuer(&self) -> &str {
        &self.state.issuer
    }

    /// Settings of the servers for a provider with this URL.
    pub(in super::super) fn settings(issuer: &str) -> [(&'static str, &str); 4] {
        [
            ("TREELINE_OIDC_PROVIDERS", NAME),
            ("TREELINE_OIDC_IDP_ISSUER", issuer),
            ("TREELINE_OIDC_IDP_CLIENT_ID", CLIENT_ID),
            ("TREELINE_OIDC_IDP_LINK_BY_EMAIL", "verified"),
        ]
    }

    /// Signs a person in at this URL. Returns the query of the way back.
    pub(super) fn grant(&self, url: &str, claims: &[(&str, Value)]) -> Result<String> {
        let query: HashMap<String, String> = Url::parse(url)?.query_pairs().into_owned().collect();
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let mut all = json!({"iss": self.state.issuer, "aud": CLIENT_ID, "nonce": query.get("nonce"), "iat": now,
            "exp": now + 300, "auth_time": now});
        for (name, value) in claims {
            all[*name] = value.clone();
        }
        let code = format!("{:032x}", rand::random::<u128>());
        self.state.grants.lock().unwrap_or_else(PoisonError::into_inner).insert(code.clone(), all);
        Ok(format!("code={code}&state={}", query.get("state").context("a state")?))
    }
}

impl Drop for IdentityProvider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ProviderState {
    /// An ID token with these claims.
    fn signed(&self, claims: &Value) -> Result<String> {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = json!({"alg": "EdDSA", "typ": "JWT", "kid": "key"});
        let text = format!("{}.{}", encode(&head), encode(claims));
        let signature = self.key.sign(text.as_bytes())?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

async fn discovery(State(state): State<Arc<ProviderState>>) -> Json<Value> {
    let at = |path: &str| format!("{}{path}", state.issuer);
    Json(json!({
        "issuer": state.issuer,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "jwks_uri": at("/keys"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["EdDSA"],
    }))
}

async fn keys(State(state): State<Arc<ProviderState>>) -> Json<Value> {
    let x = URL_SAFE_NO_PAD.encode(state.key.der_bytes());
    Json(json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": "key", "x": x}]}))
}

async fn token(
    State(state): State<Arc<ProviderState>>,
    Form(form): Form<HashMap<String, String>>,
) -> Result<Json<Value>, StatusCode> {
    let code = form.get("code").ok_or(StatusCode::BAD_REQUEST)?;
    let claims = state.grants.lock().unwrap_or_else(PoisonError::into_inner).remove(code);
    let id_token = claims.and_then(|claims| state.signed(&claims).ok()).ok_or(StatusCode::BAD_REQUEST)?;
    Ok(Json(json!({"access_token": "unused", "token_type": "Bearer", "id_token": id_token})))
}
