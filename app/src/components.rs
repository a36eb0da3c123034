//! Building blocks of pages: plain functions from data to a view.
//!
//! Each looks the same everywhere, from a list row to the uploader's page. They know nothing about requests
//! or the signed-in person, and they never write a `style` attribute, which the content security policy
//! would refuse.

#[cfg(feature = "ssr")]
pub mod action_form;
pub mod bar;
#[cfg(feature = "ssr")]
pub mod breadcrumbs;
#[cfg(feature = "ssr")]
pub mod chart;
#[cfg(feature = "ssr")]
pub mod confirm;
#[cfg(feature = "ssr")]
pub mod copyable_id;
#[cfg(feature = "ssr")]
pub mod filter_bar;
pub mod form;
#[cfg(feature = "ssr")]
pub mod json;
pub mod logo;
pub mod panel;
#[cfg(feature = "ssr")]
pub mod saved_views;
#[cfg(feature = "ssr")]
pub mod selection;
#[cfg(feature = "ssr")]
pub(crate) mod sprite;
pub mod state;
#[cfg(feature = "ssr")]
pub mod table;
#[cfg(feature = "ssr")]
pub mod text_area;
pub mod timestamp;
