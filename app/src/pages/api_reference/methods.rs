//! Methods of the SDKs, of the Rust client, and commands of the command line, by the operation that they send.
//!
//! A test finds every method in the client's source.

/// Methods of the clients for one operation: `{0}` and `{1}` are values of the path, `{body}` the body, `{query}` the
/// query as named arguments. Empty where a client has none.
#[derive(Clone, Copy)]
pub(super) struct Methods {
    operation: &'static str,
    pub(super) python: &'static str,
    pub(super) typescript: &'static str,
    pub(super) rust: &'static str,
    pub(super) cli: &'static str,
}

const fn methods(
    operation: &'static str,
    [python, typescript]: [&'static str; 2],
    rust: &'static str,
    cli: &'static str,
) -> Methods {
    Methods { operation, python, typescript, rust, cli }
}

/// Neither SDK has a method of its own.
const NONE: [&str; 2] = ["", ""];

#[rustfmt::skip]
const METHODS: &[Methods] = &[
    methods("get_me", ["me()", "me()"], "me()", ""),
    methods("list_job_types", ["job_types({query})", "jobTypes({query})"], "job_types()", "types list"),
    methods("get_job_type", ["job_type({0})", "jobType({0})"], "job_type({0})", "types show {0}"),
    methods("create_job_type", NONE, "create_job_type(&body)", ""),
    methods("patch_job_type", ["patch_job_type({0}, **{body})", "patchJobType({0}, {body})"], "", "types edit {0} FILE"),
    methods("delete_job_type", NONE, "delete_job_type({0})", "types delete {0}"),
    methods("pause_job_type", NONE, "pause_job_type({0})", "types pause {0}"),
    methods("resume_job_type", NONE, "resume_job_type({0})", "types resume {0}"),
    methods("create_job", ["create_job({body})", "createJob({body})"], "create_job(&body)", ""),
    methods("list_jobs", ["jobs({query})", "jobs({query})"], "jobs(&JobFilter::default())", "jobs"),
    methods("get_job", ["job({0})", "job({0})"], "job({0}.parse()?)", "job {0}"),
    methods("put_job", NONE, "put_job({0}.parse()?, &body)", ""),
    methods("delete_job", NONE, "delete_job({0}.parse()?, None)", ""),
    methods("seal_job", ["seal({0})", "seal({0})"], "seal({0}.parse()?)", ""),
    methods("cancel_job", ["cancel({0})", "cancel({0})"], "cancel_job({0}.parse()?, None)", "cancel {0}"),
    methods("replay_job", NONE, "replay_job({0}.parse()?, None)", "replay {0}"),
    methods("add_items", ["add_items({0}, {body})", "addItems({0}, {body})"], "add_items({0}.parse()?, &body, false)", ""),
    methods("list_job_results", ["results({0})", "results({0})"], "results({0}.parse()?, None)", ""),
    methods("list_job_failures", ["failures({0})", "failures({0})"], "failures({0}.parse()?, None)", ""),
    methods("watch_job", ["watch({0})", "watch({0})"], "events({0}.parse()?)", "tail {0}"),
    methods("list_items", ["items({query})", "items({query})"], "items(&ItemFilter::default())", "items"),
    methods("get_item", ["item({0})", "item({0})"], "item({0}.parse()?)", "item {0}"),
    methods("list_attempts", NONE, "attempts({0}.parse()?)", ""),
    methods("list_item_logs", NONE, "logs({0}.parse()?, None, &PageQuery::default())", "logs {0}"),
    methods("cancel_item", NONE, "cancel_item({0}.parse()?, None)", "cancel {0}"),
    methods("retry_item", NONE, "retry_item({0}.parse()?, &body)", "retry {0}"),
    methods("replay_item", NONE, "replay_item({0}.parse()?, &body)", "replay {0}"),
    methods("send_event", ["send_event({0}, **{body})", "sendEvent({0}, {body})"], "send_event({0}.parse()?, &body)", "event {0} NAME"),
    methods("create_bulk_operation", NONE, "create_bulk(&body)", ""),
    methods("get_bulk_operation", NONE, "bulk({0}.parse()?)", ""),
    methods("list_bulk_operations", NONE, "bulks(&PageQuery::default())", ""),
    methods("cancel_bulk_operation", NONE, "cancel_bulk({0}.parse()?)", ""),
    methods("create_schedule", ["create_schedule({body})", "createSchedule({body})"], "create_schedule(&body)", "schedules create FILE"),
    methods("list_schedules", ["schedules({query})", "schedules({query})"], "schedules(&PageQuery::default())", "schedules list"),
    methods("get_schedule", ["schedule({0})", "schedule({0})"], "schedule({0}.parse()?)", "schedules show {0}"),
    methods("list_schedule_runs", ["schedule_runs({0})", "scheduleRuns({0})"], "schedule_runs({0}.parse()?, &PageQuery::default())", "schedules runs {0}"),
    methods("patch_schedule", ["patch_schedule({0}, **{body})", "patchSchedule({0}, {body})"], "patch_schedule({0}.parse()?, &body)", "schedules edit {0}"),
    methods("run_schedule", ["run_schedule({0})", "runSchedule({0})"], "run_schedule({0}.parse()?, None)", "schedules run {0}"),
    methods("pause_schedule", ["pause_schedule({0})", "pauseSchedule({0})"], "pause_schedule({0}.parse()?, None)", "schedules pause {0}"),
    methods("resume_schedule", ["resume_schedule({0})", "resumeSchedule({0})"], "resume_schedule({0}.parse()?, None)", "schedules resume {0}"),
    methods("delete_schedule", ["delete_schedule({0})", "deleteSchedule({0})"], "delete_schedule({0}.parse()?, None)", "schedules delete {0}"),
    methods("search", NONE, "", "search TEXT"),
    methods("get_stats", NONE, "stats()", ""),
    methods("list_workers", NONE, "workers(&PageQuery::default())", ""),
    methods("list_alerts", ["alerts({query})", "alerts({query})"], "alerts(&PageQuery::default())", "alerts"),
    methods("create_alert_channel", ["create_alert_channel({body})", "createAlertChannel({body})"], "create_alert_channel(&body)", "alert-channels create FILE"),
    methods("list_alert_channels", ["alert_channels({query})", "alertChannels({query})"], "alert_channels(&PageQuery::default())", "alert-channels list"),
    methods("get_alert_channel", ["alert_channel({0})", "alertChannel({0})"], "alert_channel({0}.parse()?)", "alert-channels show {0}"),
    methods("patch_alert_channel", ["patch_alert_channel({0}, **{body})", "patchAlertChannel({0}, {body})"], "patch_alert_channel({0}.parse()?, &body)", "alert-channels edit {0} FILE"),
    methods("test_alert_channel", ["test_alert_channel({0})", "testAlertChannel({0})"], "test_alert_channel({0}.parse()?)", "alert-channels test {0}"),
    methods("delete_alert_channel", ["delete_alert_channel({0})", "deleteAlertChannel({0})"], "delete_alert_channel({0}.parse()?)", "alert-channels delete {0}"),
    methods("list_deliveries", NONE, "deliveries(&PageQuery::default())", ""),
    methods("count_job_steps", NONE, "job_steps({0}.parse()?)", ""),
    methods("list_job_deliveries", NONE, "deliveries_of({0}.parse()?, &PageQuery::default())", ""),
    methods("resend_delivery", NONE, "resend_delivery({0}.parse()?, None)", ""),
    methods("list_audit", NONE, "audit(&AuditFilter::default())", ""),
    methods("share_job", NONE, "share_job({0}.parse()?, &body)", ""),
    methods("list_shares", NONE, "shares({0}.parse()?, &PageQuery::default())", ""),
    methods("list_all_shares", NONE, "all_shares(&PageQuery::default())", ""),
    methods("delete_share", NONE, "revoke_share({0}.parse()?, None)", ""),
    methods("create_user", NONE, "create_user(&body)", ""),
    methods("list_users", NONE, "users(&PageQuery::default())", ""),
    methods("get_user", NONE, "user({0}.parse()?)", ""),
    methods("patch_user", NONE, "patch_user({0}.parse()?, &body)", ""),
    methods("create_sign_in_link", NONE, "create_sign_in_link({0}.parse()?)", ""),
    methods("create_service", NONE, "create_service(&body)", ""),
    methods("list_services", NONE, "services(&PageQuery::default())", ""),
    methods("get_service", NONE, "service({0}.parse()?)", ""),
    methods("patch_service", NONE, "patch_service({0}.parse()?, &body)", ""),
    methods("create_token", NONE, "create_token(&body)", "tokens create"),
    methods("list_tokens", NONE, "tokens(&PageQuery::default())", "tokens list"),
    methods("delete_token", NONE, "revoke_token({0}.parse()?)", "tokens revoke {0}"),
    methods("get_upload", NONE, "stored_upload({0}.parse()?)", ""),
    methods("get_upload_content", NONE, "content({0}.parse()?)", ""),
    methods("delete_upload", NONE, "delete_upload({0}.parse()?)", ""),
    methods("create_upload", NONE, "upload(Path::new(\"FILE\"), |_| ())", "upload FILE"),
    methods("claim_items", NONE, "claim(&body)", "work TYPE COMMAND"),
    methods("finish_assignments", NONE, "finish(&body)", ""),
];

/// Methods of the clients for an operation; all empty if none of them has one.
pub(super) fn methods_of(operation: &str) -> Methods {
    METHODS.iter().find(|it| it.operation == operation).copied().unwrap_or(methods("", NONE, "", ""))
}

/// Methods of the SDKs that return one row after the other.
pub(super) fn is_many(method: &str) -> bool {
    let lists = ["jobs", "items", "results", "failures", "watch", "schedules", "alerts"];
    let of_both = ["job_types", "jobTypes", "schedule_runs", "scheduleRuns", "alert_channels", "alertChannels"];
    method.split_once('(').is_some_and(|(name, _)| lists.contains(&name) || of_both.contains(&name))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// Text of all files below a folder.
    fn sources(folder: &Path) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                text.push_str(&sources(&path));
            } else {
                text.push_str(&fs::read_to_string(path).unwrap_or_default());
            }
        }
        text
    }

    #[test]
    fn every_method_exists_in_its_client() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let python = sources(&root.join("sdk/python/src/treeline"));
        let typescript = sources(&root.join("sdk/typescript/src"));
        let (rust, cli) = (sources(&root.join("client/src")), sources(&root.join("client/src/cli")).to_lowercase());
        for methods in METHODS {
            let name = |call: &str| call.split('(').next().unwrap_or_default().to_owned();
            for (call, source, before) in [
                (methods.python, &python, "    def "),
                (methods.typescript, &typescript, ""),
                (methods.rust, &rust, "pub async fn "),
            ] {
                let wanted = format!("{before}{}(", name(call));
                assert!(call.is_empty() || source.contains(&wanted), "{}: {call}", methods.operation);
            }
            for word in methods.cli.split(' ').filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())) {
                assert!(
                    word.is_empty() || cli.contains(&format!("    {word}")),
                    "{}: {}",
                    methods.operation,
                    methods.cli
                );
            }
        }
    }
}
