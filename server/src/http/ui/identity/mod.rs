//! Pages of people and services: sign-in, the own account, second factors, tokens, and share links.

pub(super) mod account; // the caller's own account
pub(super) mod factors; // second factors
pub(super) mod language; // language of the pages
pub(super) mod oidc; // identity providers
pub(super) mod people; // accounts
pub(super) mod services; // services and tokens
pub(super) mod share_links; // share links of a tree
pub(super) mod sign_in; // signing in and out
pub(super) mod step_up; // step-up authentication
