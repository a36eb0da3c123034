//! Pages of Treeline: server-rendered HTML with islands of WASM for live parts.
//!
//! Every page is a plain function from data (the types of `domain`) to a view. The server loads the data through the
//! same use cases as its API and calls [`document::document`]; the browser runs only the islands in [`live`] and
//! [`upload`]. This crate does not know the server or SQL, fetches nothing while it renders, and reads no clock.

#![recursion_limit = "512"]

#[cfg(feature = "ssr")]
pub mod address;
pub mod components;
#[cfg(feature = "ssr")]
pub mod document;
#[cfg(feature = "ssr")]
mod exact_duration;
pub mod frame;
pub mod job_view;
pub mod live;
pub mod meter;
#[cfg(feature = "ssr")]
mod notice_bell;
pub mod pace;
#[cfg(feature = "ssr")]
pub mod pages;
#[cfg(feature = "ssr")]
mod shell;
pub mod speech;
pub mod upload;
