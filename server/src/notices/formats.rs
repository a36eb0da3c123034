//! Notices as mail and as signed posts. They contain the name of the job and counts, never payloads.

use domain::{Document, Time, notice::Notice};
use serde::Serialize;

use crate::outbound::excerpt;

/// Longest subject of mail, in characters.
const LONGEST_SUBJECT: usize = 150;

/// Body of a signed post.
#[derive(Serialize)]
struct Signed<'a> {
    #[serde(rename = "type")]
    kind: String,
    timestamp: Time,
    data: &'a Notice,
}

/// Body of a post.
pub fn webhook(notice: &Notice) -> String {
    let kind = format!("notice.{}", notice.kind.as_str());
    Document::of(&Signed { kind, timestamp: notice.created_at, data: notice }).text().to_owned()
}

/// Subject and text of mail. `server` is the public URL.
pub fn mail(notice: &Notice, server: &str, environment: Option<&str>) -> (String, String) {
    let prefix = environment.map_or_else(String::new, |name| format!(" {name}"));
    let what = notice.what();
    let subject = excerpt(format!("[Treeline{prefix}] {}: {what}", notice.job_name).as_bytes(), LONGEST_SUBJECT);
    let name = excerpt(notice.job_name.as_bytes(), LONGEST_SUBJECT);
    let reason = if notice.is_import {
        "You are told because you started or watch this import. Turn off this mail in your account:"
    } else {
        "You watch this job. You can stop watching it on its page, and turn off this mail in your account:"
    };
    let lines = [
        name,
        what,
        String::new(),
        format!("{server}{}", notice.path()),
        String::new(),
        reason.to_owned(),
        format!("{server}/account#notices"),
    ];
    (subject, lines.join("\r\n"))
}

#[cfg(test)]
mod tests {
    use domain::{Outcome, notice::NoticeKind};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_name_adds_no_header_to_mail() {
        let mut notice = Notice {
            id: Uuid::nil(),
            kind: NoticeKind::Finished,
            job_id: Uuid::nil(),
            job_name: "a\r\nBcc: everyone@example.com".to_owned(),
            is_import: false,
            outcome: Some(Outcome::Succeeded),
            dead: 0,
            created_at: Time::parse("2026-11-20T09:30:00Z").expect("a time"),
            read_at: None,
        };
        let (subject, text) = mail(&notice, "https://treeline.example", Some("Staging"));
        assert_eq!(subject, "[Treeline Staging] a Bcc: everyone@example.com: Completed");
        assert!(text.contains(&format!("https://treeline.example/jobs/{}", notice.job_id)), "{text}");
        notice.is_import = true;
        let (_, text) = mail(&notice, "https://treeline.example", None);
        assert!(text.contains(&format!("https://treeline.example/imports/{}\r\n", notice.job_id)), "{text}");
        assert!(text.contains("this import") && !text.contains("watching it on its page"), "{text}");
    }
}
