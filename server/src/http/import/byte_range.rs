//! Range requests for a file (RFC 9110, sections 13.1.5 and 14), which resume an interrupted download.
//!
//! A request for several ranges gets the whole file, a valid response to any range. A file never changes, so its tag is
//! strong: the SHA-256 of its bytes.

use axum::http::{HeaderMap, HeaderName, header};

/// Requested part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestedRange {
    Whole,
    /// First byte, and the byte after the last.
    Part(u64, u64),
    /// Range outside the file.
    Outside,
}

/// Determines the part that the headers request of a file with this size in bytes and this tag.
pub(crate) fn requested_range(headers: &HeaderMap, bytes: u64, tag: &str) -> RequestedRange {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(range) = text(header::RANGE) else { return RequestedRange::Whole };
    // A weak tag, a date, or another file's tag does not prove that the file is the same.
    if headers.contains_key(header::IF_RANGE) && text(header::IF_RANGE) != Some(tag) {
        return RequestedRange::Whole;
    }
    part(range, bytes).unwrap_or(RequestedRange::Whole)
}

/// Parses a range; `None` if it is in no supported form.
fn part(range: &str, bytes: u64) -> Option<RequestedRange> {
    let (unit, range) = range.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (from, to) = match (first.trim(), last.trim()) {
        ("", last) => (bytes.saturating_sub(number(last)?), bytes),
        (first, "") => (number(first)?, bytes),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            (first, last.saturating_add(1).min(bytes))
        }
    };
    Some(if from < to { RequestedRange::Part(from, to) } else { RequestedRange::Outside })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn range_of(range: &'static str, only_if: Option<&'static str>) -> RequestedRange {
        let mut headers = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static(range))]);
        headers.extend(only_if.map(|tag| (header::IF_RANGE, HeaderValue::from_static(tag))));
        requested_range(&headers, 10, "\"a\"")
    }

    #[test]
    fn a_single_range_is_supported_and_others_get_the_whole_file() {
        for (range, expected) in [
            ("bytes=0-0", RequestedRange::Part(0, 1)),
            ("bytes=2-5", RequestedRange::Part(2, 6)),
            ("Bytes=7-", RequestedRange::Part(7, 10)),
            ("bytes=-3", RequestedRange::Part(7, 10)),
            ("bytes=-30", RequestedRange::Part(0, 10)),
            ("bytes=5-99999999999999999999999", RequestedRange::Part(5, 10)),
            ("bytes=10-", RequestedRange::Outside),
            ("bytes=-0", RequestedRange::Outside),
            ("bytes=5-2", RequestedRange::Whole),
            ("bytes=0-1,3-4", RequestedRange::Whole),
            ("bytes=a-b", RequestedRange::Whole),
            ("bytes=-", RequestedRange::Whole),
            ("lines=0-1", RequestedRange::Whole),
        ] {
            assert_eq!(range_of(range, None), expected, "{range}");
        }
        assert_eq!(requested_range(&HeaderMap::new(), 10, "\"a\""), RequestedRange::Whole);
        assert_eq!(range_of("bytes=1-2", Some("\"a\"")), RequestedRange::Part(1, 3));
        for other in ["\"b\"", "W/\"a\"", "Sun, 22 Nov 2026 13:00:00 GMT"] {
            assert_eq!(range_of("bytes=1-2", Some(other)), RequestedRange::Whole, "{other}");
        }
    }
}
