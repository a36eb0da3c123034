//! Integration tests over HTTP: a real server, its own database, and requests as users send them.

#![expect(clippy::format_collect, reason = "a story's file is written as it reads")]

mod support;

mod access;
mod alert_channel_pages; // pages of receivers of alerts
mod alert_channels; // receivers of alerts
mod alert_mail; // alerts by mail
mod alerts;
mod api_reference; // pages of operations, and requests sent from them
mod assignment_capabilities;
mod assignment_lists;
mod audit;
mod audit_exports;
mod audit_trail;
mod authorization;
mod body_memory;
mod broker;
mod browser_security;
mod bulk;
mod callback_limits;
mod callbacks;
mod concurrent_pairs;
mod concurrent_writes;
mod confirmations;
mod corrections;
mod credential_expiry;
mod debounce; // items merged into waiting ones
mod delegation;
mod error_groups; // states of error groups
mod event_waits; // items that wait for programs and people
mod exports;
mod factors; // second factors of people
mod fair_by; // groups that take turns
mod fair_turns;
mod file_storage;
mod form_repeats; // forms that are sent twice, or after a change by someone else
mod hostile_json;
mod http_log;
mod id_lists;
mod idempotency;
mod import_check;
mod import_files;
mod import_fixes;
mod import_pages;
mod import_review;
mod import_samples;
mod import_templates;
mod import_types;
mod imports;
mod item_streams; // lines that are refused, requests without items
mod item_timing;
mod item_views;
mod job_and_item_edits;
mod job_creation;
mod job_history; // activity of jobs over time
mod job_pages; // views of a job
mod job_types;
mod languages;
mod lifecycle;
mod limits;
mod lists;
mod live;
mod live_topics;
mod logs;
mod lookups;
mod mapping;
mod metrics;
mod multiple_servers;
mod notices; // notices to people
mod oidc; // sign-in by OpenID Connect
mod openapi;
mod ownership;
mod pages;
mod people;
mod people_pages;
mod postgres_roles;
mod problems;
mod profiles; // CPU and heap profiles
mod proxy_header; // a proxy that signs people in
mod proxy_users; // accounts of people whom a proxy names
mod push;
mod push_limits;
mod query_buffers;
mod query_plans;
mod quotas;
mod races;
mod read_only_database;
mod replay;
mod resumable;
mod retention;
mod returned_rows; // lists of failed rows that come back
mod revocation;
mod roles;
mod saved_views; // filters of lists under a name
mod schedule_edits; // schedules made, edited, run by hand, and their pages
mod schedule_secrets; // secrets of the webhooks of scheduled jobs
mod schedules; // trees created by cron expressions
mod schema_limits;
mod search; // one search over everything
mod second_factor_limits; // wrong codes of authenticator apps
mod secret_sealing;
mod series; // activity over time
mod shares;
mod sign_in;
mod slow_clients;
mod sorting; // orders of lists
mod staff_pages;
mod standby_reads; // reads from a hot standby
mod start_job; // jobs started by form
mod step_up; // proving again who one is
mod strict_requests;
mod throttle;
mod traces;
mod transport;
mod tree_completion;
mod trees;
mod tus;
mod type_pages; // forms of job types
mod upgrade;
mod upload_formats;
mod wake_ups;
mod webhooks;
mod work;
mod work_scope;
mod workbooks;
mod worker_page; // one worker
