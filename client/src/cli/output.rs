//! Output of a command: progress lines on fd 3, and the end of standard error.
//!
//! The output of commands is not trusted: it is bounded, and invalid UTF-8 is replaced.

use domain::item::ItemProgress;

/// Maximum number of bytes of one line; the rest is ignored.
const MAX_LINE: usize = 4 * 1024;
/// Bytes of the end of standard error that become the message of a failure.
const TAIL: usize = 4 * 1024;

/// Reads `progress 3/10 text`: done, total and text may each be absent, but not all. Other lines are
/// `None`.
pub(super) fn progress(line: &str) -> Option<ItemProgress> {
    let rest = line.trim().strip_prefix("progress")?;
    if !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let rest = rest.trim_start();
    let (first, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let (done, total, text) = match first.split_once('/') {
        Some((done, total)) => match (count(done), count(total)) {
            (Some(done), Some(total)) => (Some(done), Some(total), text),
            _ => (None, None, rest),
        },
        None => match count(first) {
            Some(done) => (Some(done), None, text),
            None => (None, None, rest),
        },
    };
    let text = text.trim();
    Some(ItemProgress { done, total, message: (!text.is_empty()).then(|| text.to_owned()) })
}

fn count(text: &str) -> Option<i64> {
    text.parse().ok().filter(|&n| n >= 0)
}

/// Splits bytes into lines of bounded length; the rest of a longer line is ignored.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
}

impl Lines {
    pub(super) fn feed(&mut self, bytes: &[u8], mut on_line: impl FnMut(&str)) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = MAX_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                on_line(&String::from_utf8_lossy(&self.line));
                self.line.clear();
            }
        }
    }

    /// Handles the text after the last line end.
    pub(super) fn end(&mut self, mut on_line: impl FnMut(&str)) {
        if !self.line.is_empty() {
            on_line(&String::from_utf8_lossy(&self.line));
            self.line.clear();
        }
    }
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL + 1)..]);
        let over = self.bytes.len().saturating_sub(TAIL);
        if over > 0 {
            self.bytes.drain(..over);
            self.cut = true;
        }
    }

    /// Text for people: whole characters, no control characters except tab and line end. Empty if there was no output.
    pub(super) fn text(&self) -> String {
        let is_inside_character = |&&byte: &&u8| byte & 0b1100_0000 == 0b1000_0000;
        let skip = if self.cut { self.bytes.iter().take(3).take_while(is_inside_character).count() } else { 0 };
        let text = String::from_utf8_lossy(&self.bytes[skip..]);
        let text: String = text
            .trim()
            .chars()
            .map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c })
            .collect();
        if self.cut { format!("…{text}") } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(done: Option<i64>, total: Option<i64>, message: Option<&str>) -> ItemProgress {
        ItemProgress { done, total, message: message.map(str::to_owned) }
    }

    #[test]
    fn a_progress_line_has_numbers_and_words() {
        assert_eq!(
            progress("progress 3/10 reading the file\n"),
            Some(report(Some(3), Some(10), Some("reading the file")))
        );
        assert_eq!(progress("progress 3/10"), Some(report(Some(3), Some(10), None)));
        assert_eq!(progress("progress 3 rows"), Some(report(Some(3), None, Some("rows"))));
        assert_eq!(progress("progress\talmost there"), Some(report(None, None, Some("almost there"))));
        assert_eq!(progress("progress -1/10 x"), Some(report(None, None, Some("-1/10 x"))));
        assert_eq!(progress("progress a/b"), Some(report(None, None, Some("a/b"))));
        for other in ["", "progress", "progression 3/10", "3/10", "Progress 1/2"] {
            assert_eq!(progress(other), None, "{other:?}");
        }
    }

    #[test]
    fn lines_are_bounded_however_they_arrive() {
        let mut received = Vec::new();
        let mut lines = Lines::default();
        for byte in b"a\nbc\n\nd" {
            lines.feed(&[*byte], |line| received.push(line.to_owned()));
        }
        lines.end(|line| received.push(line.to_owned()));
        assert_eq!(received, ["a\n", "bc\n", "\n", "d"]);

        let mut longest = 0;
        for _ in 0..100 {
            lines.feed(&[b'x'; 1000], |_| {});
            longest = longest.max(lines.line.len());
        }
        assert_eq!(longest, MAX_LINE);
    }

    #[test]
    fn a_tail_keeps_the_end_in_whole_characters() {
        let mut tail = Tail::default();
        tail.feed(b"short\0 message \n");
        assert_eq!(tail.text(), "short\u{fffd} message");
        for _ in 0..5000 {
            tail.feed("é".as_bytes());
        }
        tail.feed(b"x");
        let text = tail.text();
        assert!(text.starts_with("…é") && text.ends_with("éx"), "{}", &text[..20]);
        assert!(!text.contains('\u{fffd}'));
        assert!(tail.bytes.len() <= TAIL);
    }
}
