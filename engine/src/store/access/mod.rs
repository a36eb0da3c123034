//! Statements of people, services, sessions, tokens, second factors, quotas, and sealing keys.

pub mod credentials; // tokens, sessions and links by id
pub mod factors; // second factors of people
pub mod federated_accounts; // external identities
pub mod identity; // owners, sessions, tokens, links
pub mod identity_lists; // lists of services and tokens
pub mod people; // accounts and their sessions
pub mod quotas; // usage of an owner
pub mod sealed_rows; // rows that are sealed again
pub mod sealing_keys; // keys that seal secrets
pub mod sign_in; // failed sign-ins of all servers
