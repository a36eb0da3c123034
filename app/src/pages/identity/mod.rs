//! Pages of people and services: sign-in, the own account, second factors, tokens, and share links.

pub mod account;
pub mod factors;
pub mod people;
pub mod services;
pub mod share;
pub mod sign_in;
pub mod step_up;
