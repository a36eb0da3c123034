//! URLs of push executors with placeholders for type, item and job.
//!
//! The inserted values consist of letters, digits and `._-`, so they need no escaping in any part of a URL. The host
//! may depend only on the type, because requests are limited per target.

use url::{Origin, Url};
use uuid::Uuid;

const TYPE: &str = "{type}";
const ITEM: &str = "{item_id}";
const JOB: &str = "{job_id}";

/// URL for one item.
pub fn fill(template: &str, job_type: &str, item_id: Uuid, job_id: Uuid) -> String {
    template.replace(TYPE, job_type).replace(ITEM, &item_id.to_string()).replace(JOB, &job_id.to_string())
}

/// Returns true if every item of a type has the same URL.
pub fn is_fixed(template: &str) -> bool {
    !template.contains(ITEM) && !template.contains(JOB)
}

/// Validates a template: returns its URL with the type inserted, or the error.
pub fn check(template: &str, job_type: &str) -> Result<Url, &'static str> {
    let rest = template.replace(TYPE, "").replace(ITEM, "").replace(JOB, "");
    if rest.contains(['{', '}']) {
        return Err("expected no other braces than {type}, {item_id} and {job_id}");
    }
    let parsed = |id: u128| Url::parse(&fill(template, job_type, Uuid::from_u128(id), Uuid::from_u128(id)));
    // Not by their origins: those of schemes such as `file` never equal each other.
    let receiver =
        |url: &Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default());
    match (parsed(0), parsed(u128::MAX)) {
        (Ok(one), Ok(other)) if receiver(&one) == receiver(&other) => Ok(one),
        (Ok(_), Ok(_)) => Err("expected a host that depends on the type alone"),
        _ => Err("expected a URL"),
    }
}

/// Scheme, host and port of a template: the receiver of its secrets.
pub fn origin(template: &str, job_type: &str) -> Option<Origin> {
    check(template, job_type).ok().map(|url| url.origin())
}

/// Displayed form of an origin: host and port.
pub fn target(url: &Url) -> String {
    let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_item_and_job_are_filled_in() {
        let (item, job) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let url = fill("https://{type}.example/{job_id}/{item_id}?again={item_id}", "a.b", item, job);
        assert_eq!(url, format!("https://a.b.example/{job}/{item}?again={item}"));
        assert!(is_fixed("https://x/{type}") && !is_fixed("https://x/{item_id}"));
    }

    #[test]
    fn a_host_depends_on_the_type_alone() {
        assert!(check("https://{type}.example/{item_id}", "a").is_ok());
        assert!(check("https://{item_id}.example/", "a").is_err());
        assert!(check("https://example/{item}", "a").is_err());
        assert!(check("https://example/}", "a").is_err());
        assert!(check("nowhere", "a").is_err());
        // Other schemes are refused where URLs are checked.
        assert!(check("file:///x", "a").is_ok() && check("javascript:alert(1)", "a").is_ok());
        assert_eq!(origin("https://example/{item_id}", "a"), origin("https://example:443/other", "b"));
        assert_ne!(origin("https://example/", "a"), origin("https://example:8443/", "a"));
        assert_eq!(target(&check("https://example/x", "a").expect("a URL")), "example:443");
    }
}
