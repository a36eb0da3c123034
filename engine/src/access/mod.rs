//! Who asks: authenticated callers, holders of assignments, and the current rights of a credential.

pub mod caller; // authenticated callers and their permissions
pub mod holder; // holders of assignments
pub mod rights; // current rights of a credential
