//! What is thrown at everything that reads text or bytes of strangers, and what must hold whatever they are.
//!
//! Each function takes any bytes and panics where something is wrong. The fuzzer calls them with what it makes up;
//! the story `server/tests/fuzzing.rs` includes this file and calls them in every build with the seeds and some
//! thousands of changes of them.

mod files; // files of rows, workbooks
mod json; // documents and what is built on them
mod mapped; // column mappings, cells
mod words; // filters, cursors, headers, templates, streams

pub use files::{split, workbook};
pub use json::{body, document, feed, wake};
pub use mapped::mapping;
pub use words::{callback, client_address, cursor, events, filter, key, query, secret, template, topics};

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// Every target under the name of its seeds.
pub const TARGETS: &[(&str, Target)] = &[
    ("body", body),
    ("callback", callback),
    ("client_address", client_address),
    ("cursor", cursor),
    ("document", document),
    ("events", events),
    ("feed", feed),
    ("filter", filter),
    ("key", key),
    ("mapping", mapping),
    ("query", query),
    ("secret", secret),
    ("split", split),
    ("template", template),
    ("topics", topics),
    ("wake", wake),
    ("workbook", workbook),
];
