//! Stories through the front door: a real server, a database of its own, requests as users send them.

mod support;

mod access;
mod alerts;
mod audit;
mod bulk;
mod creation;
mod exports;
mod files;
mod formats;
mod found;
mod idempotency;
mod imports;
mod job_types;
mod lifecycle;
mod live;
mod openapi;
mod patching;
mod pairs;
mod problems;
mod races;
mod reading;
mod replay;
mod retention;
mod sign_in;
mod trees;
mod turns;
mod work;
