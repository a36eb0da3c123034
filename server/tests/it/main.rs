//! Stories through the front door: a real server, a database of its own, requests as users send them.

mod support;

mod access;
mod exports;
mod files;
mod formats;
mod imports;
mod job_types;
mod lifecycle;
mod live;
mod openapi;
mod problems;
mod races;
mod sign_in;
mod turns;
mod work;
