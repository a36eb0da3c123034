//! Stories through the front door: a real server, a database of its own, requests as users send them.

mod support;

mod access;
mod job_types;
mod openapi;
mod problems;
mod sign_in;
mod work;
