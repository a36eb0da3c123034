//! OpenID Connect provider that is controlled by the test.
//!
//! Discovery, keys, token and user info endpoints over HTTP; the test replaces the sign-in page by reading the redirect
//! URL. Codes work once by default, for the PKCE verifier and the client of the request. The browser tests use a real
//! provider.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Form, Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _, SigningKey as _};
use serde_json::{Map, Value, json};
use server::config::identity::Provider;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use url::Url;

pub(crate) const CLIENT_ID: &str = "treeline";
pub(crate) const CLIENT_SECRET: &str = "a-secret-of-the-client";

/// Signature of an ID token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signature {
    Right,
    /// By another key than the published one.
    Foreign,
    /// With the client secret.
    Secret,
    /// Unsigned.
    None,
}

#[derive(Clone)]
struct Grant {
    challenge: String,
    claims: Map<String, Value>,
    signature: Signature,
}

struct Shared {
    issuer: String,
    key: KeyPair,
    foreign: KeyPair,
    grants: Mutex<HashMap<String, Grant>>,
    takes_codes_again: AtomicBool,
}

#[derive(Clone)]
pub(crate) struct Idp(Arc<Shared>);

impl Idp {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let issuer = format!("http://127.0.0.1:{}", listener.local_addr().expect("an address").port());
        let key = || KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let idp = Self(Arc::new(Shared {
            issuer,
            key: key(),
            foreign: key(),
            grants: Mutex::default(),
            takes_codes_again: AtomicBool::new(false),
        }));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .with_state(idp.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        idp
    }

    /// Makes codes reusable.
    pub(crate) fn take_codes_again(&self) {
        self.0.takes_codes_again.store(true, Ordering::Relaxed);
    }

    /// Server settings for this provider, plus additional ones.
    pub(crate) fn settings(&self, name: &str, more: &[(&str, &str)]) -> Arc<Provider> {
        let prefix = format!("TREELINE_OIDC_{}_", name.to_uppercase());
        let read = |variable: &str| match variable.strip_prefix(&prefix)? {
            "ISSUER" => Some(self.0.issuer.clone()),
            "CLIENT_ID" => Some(CLIENT_ID.to_owned()),
            "CLIENT_SECRET" => Some(CLIENT_SECRET.to_owned()),
            other => more.iter().find(|(name, _)| *name == other).map(|(_, value)| (*value).to_owned()),
        };
        Arc::new(Provider::read(name, &read).expect("settings"))
    }

    /// Signs a person in at this redirect URL; returns the callback query. Claims override the defaults; null removes
    /// one.
    pub(crate) fn grant(&self, departure: &str, claims: &Value, signature: Signature) -> String {
        let parameters: HashMap<String, String> =
            Url::parse(departure).expect("an address").query_pairs().into_owned().collect();
        assert_eq!(parameters["code_challenge_method"], "S256");
        assert!(parameters["scope"].split(' ').any(|scope| scope == "openid"), "{parameters:?}");
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let honest = json!({"iss": self.0.issuer, "aud": CLIENT_ID, "sub": "grace", "nonce": parameters["nonce"], "iat": now,
            "exp": now + 300, "auth_time": now});
        let mut all = honest.as_object().expect("claims").clone();
        all.extend(claims.as_object().expect("claims").clone());
        all.retain(|_, value| !value.is_null());
        let code = format!("code-{:032x}", rand::random::<u128>());
        let grant = Grant { challenge: parameters["code_challenge"].clone(), claims: all, signature };
        self.0.grants.lock().expect("not poisoned").insert(code.clone(), grant);
        format!("code={code}&state={}", parameters["state"])
    }

    fn signed(&self, grant: &Grant) -> String {
        let alg = match grant.signature {
            Signature::Right | Signature::Foreign => "EdDSA",
            Signature::Secret => "HS256",
            Signature::None => "none",
        };
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!(
            "{}.{}",
            encode(&json!({"alg": alg, "typ": "JWT", "kid": "key"})),
            encode(&Value::Object(grant.claims.clone()))
        );
        let signature = match grant.signature {
            Signature::Right => self.0.key.sign(text.as_bytes()).expect("signed"),
            Signature::Foreign => self.0.foreign.sign(text.as_bytes()).expect("signed"),
            Signature::Secret => {
                let mut mac = Hmac::<Sha256>::new_from_slice(CLIENT_SECRET.as_bytes()).expect("a key");
                mac.update(text.as_bytes());
                mac.finalize().into_bytes().to_vec()
            }
            Signature::None => Vec::new(),
        };
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

async fn discovery(State(Idp(shared)): State<Idp>) -> Json<Value> {
    let at = |path: &str| format!("{}{path}", shared.issuer);
    Json(json!({
        "issuer": shared.issuer,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "jwks_uri": at("/keys"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        // A careless provider: what it offers is not what is accepted.
        "id_token_signing_alg_values_supported": ["EdDSA", "HS256", "none"],
    }))
}

async fn keys(State(Idp(shared)): State<Idp>) -> Json<Value> {
    let x = URL_SAFE_NO_PAD.encode(shared.key.der_bytes());
    Json(json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": "key", "x": x}]}))
}

async fn token(State(idp): State<Idp>, headers: HeaderMap, Form(form): Form<HashMap<String, String>>) -> Response {
    let refused = || (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))).into_response();
    let client = format!("Basic {}", STANDARD.encode(format!("{CLIENT_ID}:{CLIENT_SECRET}")));
    if headers.get("authorization").and_then(|value| value.to_str().ok()) != Some(client.as_str()) {
        return refused();
    }
    let grant = {
        let mut grants = idp.0.grants.lock().expect("not poisoned");
        let keeps = idp.0.takes_codes_again.load(Ordering::Relaxed);
        if keeps { grants.get(&form["code"]).cloned() } else { grants.remove(&form["code"]) }
    };
    let Some(grant) = grant else { return refused() };
    if URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"])) != grant.challenge {
        return refused();
    }
    let id_token = idp.signed(&grant);
    Json(json!({"access_token": "unused", "token_type": "Bearer", "id_token": id_token})).into_response()
}
