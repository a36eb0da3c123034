//! Fuzz targets for all code that reads untrusted text or bytes, with the properties that must hold for any input.
//!
//! Each function takes any bytes and panics on a violation. The fuzzer calls them with generated input; the test
//! `server/tests/fuzz_seeds.rs` includes this file and calls them in every build with the seeds and thousands of
//! mutations.

mod files; // files of rows, workbooks
mod forms; // payloads and requests, typed into forms
mod json; // documents and what is built on them
mod mapped; // column mappings, cells
mod text_formats; // filters, cursors, headers, templates, streams

pub use files::{split, workbook};
pub use forms::{api_request, start_form};
pub use json::{body, document, event_form, feed, wake};
pub use mapped::mapping;
pub use text_formats::{callback, client_address, cursor, events, filter, key, query, secret, template, topics};

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// All targets, by the name of their seeds.
pub const TARGETS: &[(&str, Target)] = &[
    ("api_request", api_request),
    ("body", body),
    ("callback", callback),
    ("client_address", client_address),
    ("cursor", cursor),
    ("document", document),
    ("event_form", event_form),
    ("events", events),
    ("feed", feed),
    ("filter", filter),
    ("key", key),
    ("mapping", mapping),
    ("query", query),
    ("secret", secret),
    ("split", split),
    ("start_form", start_form),
    ("template", template),
    ("topics", topics),
    ("wake", wake),
    ("workbook", workbook),
];
