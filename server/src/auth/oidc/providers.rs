//! Metadata of OpenID Connect providers: discovered, cached, and turned into the library's client.
//!
//! Used by both steps of a sign-in. Concurrent requests share one fetch, and an unreachable provider is not contacted
//! for every visitor.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use domain::Code;
use openidconnect::{
    AdditionalClaims, AuthType, ClientId, ClientSecret, EmptyExtraTokenFields, IdTokenFields, IssuerUrl, RedirectUrl,
    StandardErrorResponse, StandardTokenResponse,
    core::{
        CoreAuthDisplay, CoreAuthPrompt, CoreClientAuthMethod, CoreErrorResponseType, CoreGenderClaim, CoreJsonWebKey,
        CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm, CoreProviderMetadata, CoreRevocableToken,
        CoreRevocationErrorResponse, CoreTokenIntrospectionResponse, CoreTokenType,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{bounded_http, refused};
use crate::{App, config::identity::Provider};
use engine::error::{Error, Result};

/// Time for which metadata and keys are cached. Unknown keys trigger a new fetch, at most once a minute; an unreachable
/// provider is retried after a few seconds.
const CACHE_LIFETIME: Duration = Duration::from_hours(1);
const REFETCH_INTERVAL: Duration = Duration::from_mins(1);
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Accepted signatures of ID tokens: asymmetric ones only, so that knowing the client secret does not allow forgery.
const SIGNATURES: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// All non-standard claims, such as groups.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct OtherClaims(pub(super) Map<String, Value>);

impl AdditionalClaims for OtherClaims {}

type TokenFields = IdTokenFields<
    OtherClaims,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;

pub(super) type Client = openidconnect::Client<
    OtherClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    StandardTokenResponse<TokenFields, CoreTokenType>,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    openidconnect::EndpointSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointMaybeSet,
    openidconnect::EndpointMaybeSet,
>;

/// Recently fetched provider metadata, by name. Each entry has its own lock, so that concurrent requests share one
/// fetch.
#[derive(Debug, Default)]
pub struct ProviderCache(Mutex<HashMap<String, Arc<tokio::sync::Mutex<Option<Fetched>>>>>);

/// Result of a fetch; `None` if the provider was unreachable.
#[derive(Debug)]
struct Fetched {
    at: Instant,
    metadata: Option<Arc<CoreProviderMetadata>>,
}

/// Finds a provider by name.
pub(super) fn find<'a>(app: &'a App, name: &str) -> Result<&'a Provider> {
    let provider = app.config.identity.provider(name);
    provider.map(|provider| &**provider).ok_or_else(|| Error::refuse(Code::NotFound, "There is no such provider."))
}

/// Builds the library's client for a provider.
pub(super) fn client(app: &App, provider: &Provider, metadata: &CoreProviderMetadata) -> Result<Client> {
    let redirect = format!("{}/sign-in/oidc/{}/callback", app.public_url.as_str(), provider.name);
    let redirect = RedirectUrl::new(redirect).map_err(|error| Error::Broken(error.to_string()))?;
    let secret = provider.client_secret.as_ref().map(|secret| ClientSecret::new(secret.reveal().to_owned()));
    let id = ClientId::new(provider.client_id.clone());
    let signatures = metadata.id_token_signing_alg_values_supported().iter().filter(|alg| SIGNATURES.contains(alg));
    let signatures = signatures.cloned().collect();
    let metadata = metadata.clone().set_id_token_signing_alg_values_supported(signatures);
    // Send the secret in the header if the provider lists no authentication methods.
    let takes = |method: &CoreClientAuthMethod| {
        metadata.token_endpoint_auth_methods_supported().is_none_or(|methods| methods.contains(method))
    };
    let in_header = takes(&CoreClientAuthMethod::ClientSecretBasic) || !takes(&CoreClientAuthMethod::ClientSecretPost);
    let auth = if in_header { AuthType::BasicAuth } else { AuthType::RequestBody };
    Ok(Client::from_provider_metadata(metadata, id, secret).set_redirect_uri(redirect).set_auth_type(auth))
}

/// Returns metadata and keys of a provider. `refetch`: fetches even if they are cached, at most once a minute.
pub(super) async fn metadata(app: &App, provider: &Provider, refetch: bool) -> Result<Arc<CoreProviderMetadata>> {
    let unreachable = || refused("The provider cannot be reached at the moment. Try again later, or use another way.");
    let entry = {
        let mut cached = app.auth.providers.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(cached.entry(provider.name.clone()).or_default())
    };
    let mut entry = entry.lock().await;
    match &*entry {
        Some(Fetched { at, metadata: Some(cached) })
            if at.elapsed() < if refetch { REFETCH_INTERVAL } else { CACHE_LIFETIME } =>
        {
            return Ok(Arc::clone(cached));
        }
        Some(Fetched { at, metadata: None }) if at.elapsed() < RETRY_INTERVAL => return Err(unreachable()),
        _ => {}
    }
    let issuer = IssuerUrl::new(provider.issuer.clone()).map_err(|error| Error::Broken(error.to_string()))?;
    let fetched = CoreProviderMetadata::discover_async(issuer, &bounded_http::send).await;
    let metadata = match fetched {
        Ok(metadata) => Some(Arc::new(metadata)),
        Err(error) => {
            tracing::warn!(provider = provider.name, %error, "identity provider unreachable");
            None
        }
    };
    *entry = Some(Fetched { at: Instant::now(), metadata: metadata.clone() });
    metadata.ok_or_else(unreachable)
}
