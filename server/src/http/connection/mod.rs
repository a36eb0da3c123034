//! Connections: the accept loop, TLS, limits, time limits, and the log of bodies.

pub(super) mod activity; // activity of an HTTP/2 connection
pub(super) mod body_log; // bodies in the log
pub(super) mod connections; // connection limits
pub(super) mod refused_body; // bodies that are answered before they have arrived
pub mod serve; // accept loop
pub mod tls; // TLS of the server itself
pub(super) mod write_timeout; // write timeout of connections
