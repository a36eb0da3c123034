//! Stories through the front door: a real server, a database of its own, requests as users send them.

#![expect(clippy::format_collect, reason = "a story's file is written as it reads")]

mod support;

mod access;
mod alerts;
mod audit;
mod bulk;
mod creation;
mod desk;
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
mod pairs;
mod patching;
mod problems;
mod races;
mod reading;
mod replay;
mod retention;
mod sign_in;
mod trees;
mod turns;
mod work;
