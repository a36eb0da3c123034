//! Integration tests over HTTP: a real server, its own database, and requests as users send them.

#![expect(clippy::format_collect, reason = "a story's file is written as it reads")]

mod support;

mod access;
mod alerts;
mod audit;
mod audit_exports;
mod audit_trail;
mod authorization;
mod body_memory;
mod broker;
mod buffers;
mod bulk;
mod callback_limits;
mod callbacks;
mod capabilities;
mod codes; // wrong codes of authenticator apps
mod confirmations;
mod corrections;
mod creation;
mod credentials_end;
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
mod import_check;
mod import_pages;
mod import_review;
mod import_types;
mod imports;
mod job_types;
mod lifecycle;
mod lists;
mod live;
mod live_topics;
mod logs;
mod lookups;
mod mapping;
mod metrics;
mod moments;
mod named;
mod oidc; // sign-in by OpenID Connect
mod openapi;
mod ownership;
mod pages;
mod pairs;
mod patching;
mod people;
mod people_pages;
mod plans;
mod postgres_roles;
mod problems;
mod proxy_header; // a proxy that signs people in
mod proxy_users; // accounts of people whom a proxy names
mod push;
mod push_limits;
mod quotas;
mod races;
mod reading;
mod replay;
mod resumable;
mod retention;
mod revocation;
mod roles;
mod schedules; // trees created by cron expressions
mod schema_limits;
mod sealing;
mod search; // one search over everything
mod series; // activity over time
mod servers;
mod shares;
mod sign_in;
mod slow;
mod sorting; // orders of lists
mod step_up; // proving again who one is
mod strict_requests;
mod throttle;
mod transport;
mod trees;
mod turns;
mod tus;
mod wake_ups;
mod webhooks;
mod work;
mod work_scope;
mod workbooks;
