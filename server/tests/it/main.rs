//! Stories through the front door: a real server, a database of its own, requests as users send them.

#![expect(clippy::format_collect, reason = "a story's file is written as it reads")]

mod support;

mod access;
mod alerts;
mod audit;
mod broker;
mod buffers;
mod bulk;
mod callback_limits;
mod callbacks;
mod corrections;
mod creation;
mod crossings;
mod delegation;
mod desk;
mod exports;
mod files;
mod formats;
mod found;
mod hostile;
mod idempotency;
mod imports;
mod job_types;
mod lifecycle;
mod lists;
mod live;
mod moments;
mod named;
mod openapi;
mod ownership;
mod pairs;
mod patching;
mod people;
mod people_pages;
mod plans;
mod problems;
mod push;
mod push_limits;
mod races;
mod reading;
mod replay;
mod resumable;
mod retention;
mod revocation;
mod servers;
mod shares;
mod sign_in;
mod slow;
mod trees;
mod turns;
mod wake_ups;
mod work;
mod work_scope;
