//! Pages that explain the product: its documentation, and the reference of its API.
//!
//! The documentation is public, because it has nothing of this server. The API reference needs a session, because its
//! forms send requests.

pub mod api_reference; // operations of the API, and requests sent from their pages
pub(crate) mod documentation; // documentation
