//! Pages: each a plain function from data to a [`Page`](crate::frame::Page).
//!
//! The data has the types of the API; a page loads nothing, checks no rights and reads no clock.

pub mod alert_channels;
pub mod api_reference; // operations of the API, and the form that sends them
pub mod audit;
pub mod deliveries;
pub mod documentation;
pub mod error_page;
pub mod identity;
pub mod import;
pub mod item;
pub mod job;
pub mod jobs;
pub mod menu; // all links, for phones
pub mod notices;
pub mod operator;
pub mod overview;
mod rows;
pub mod schedules;
pub mod search;
pub mod shortcuts;
pub mod start_job;
pub mod types;
pub mod views;
pub mod worker;
