//! Who acts: people, services, their credentials, and the audit log of what they did.

pub mod access;
pub mod account;
pub mod audit;
pub mod factors;
pub mod owner;
