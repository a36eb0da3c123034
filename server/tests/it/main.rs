//! Stories through the front door: a real server, a database of its own, requests as users send them.

#![expect(clippy::format_collect, reason = "a story's file is written as it reads")]

mod support;

mod access;
mod alerts;
mod audit;
mod audit_trail;
mod authorization;
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
mod factors; // second factors of people
mod files;
mod formats;
mod found;
mod hostile;
mod hygiene;
mod idempotency;
mod imports;
mod job_types;
mod lifecycle;
mod lists;
mod live;
mod metrics;
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
mod proxy_header; // a proxy that signs people in
mod push;
mod push_limits;
mod races;
mod reading;
mod replay;
mod resumable;
mod retention;
mod revocation;
mod sealing;
mod servers;
mod shares;
mod sign_in;
mod slow;
mod step_up; // proving again who one is
mod strict_requests;
mod throttle;
mod trees;
mod turns;
mod wake_ups;
mod work;
mod work_scope;
