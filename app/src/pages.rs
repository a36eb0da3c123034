//! Pages: each a plain function from data to a [`Page`](crate::frame::Page).
//!
//! The data has the types of the API; a page loads nothing, checks no rights and reads no clock.

pub mod account;
pub mod alert_channels;
pub mod audit;
pub mod bulk;
pub mod correct;
pub mod dead_letters;
pub mod deliveries;
pub mod error_groups;
pub mod error_page;
pub mod factors;
pub mod import;
pub mod imports;
pub mod item;
pub mod job;
pub mod jobs;
pub mod menu; // all links, for phones
pub mod new_import;
pub mod overview;
pub mod people;
mod rows;
pub mod schedules;
pub mod search;
pub mod services;
pub mod share;
pub mod shortcuts;
pub mod sign_in;
pub mod step_up;
pub mod types;
