//! Routes of people and services: sign-in, sessions, second factors, and tokens.

pub mod access; // services and tokens
pub mod factors; // second factors
pub mod me; // the caller's own account
pub mod people; // accounts
pub mod session; // signing in and out
