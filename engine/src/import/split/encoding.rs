//! Character encoding of a file, from its byte order mark or from the importer. `encoding_guess` finds it otherwise.

use encoding_rs::{
    BIG5, EUC_KR, GB18030, GBK, ISO_2022_JP, REPLACEMENT, SHIFT_JIS, UTF_8, UTF_16BE, UTF_16LE, X_USER_DEFINED,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Longest label of an encoding, in characters.
pub const LONGEST_LABEL: usize = 40;

/// Encoding in which line ends, quotes and the usual delimiters can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
    /// Any other encoding with single-byte ASCII characters, such as Windows-1252.
    Legacy(&'static encoding_rs::Encoding),
}

impl Encoding {
    /// Finds the encoding of a WHATWG Encoding Standard label, in any case, such as `iso-8859-1`; `None` if it is
    /// unknown or its lines cannot be told apart.
    pub fn of_label(label: &str) -> Option<Self> {
        let found = encoding_rs::Encoding::for_label(label.as_bytes())?;
        (![ISO_2022_JP, REPLACEMENT, X_USER_DEFINED].contains(&found)).then(|| Self::of(found))
    }

    pub(super) fn of(found: &'static encoding_rs::Encoding) -> Self {
        match found {
            found if found == UTF_8 => Self::Utf8,
            found if found == UTF_16LE => Self::Utf16Le,
            found if found == UTF_16BE => Self::Utf16Be,
            found => Self::Legacy(found),
        }
    }

    /// Returns true for the first byte of a character whose second byte may be in the range of ASCII.
    pub(super) fn begins_two_bytes(self, unit: u16) -> bool {
        let Self::Legacy(encoding) = self else { return false };
        match unit {
            // Half-width katakana are single bytes.
            0xA1..=0xDF if encoding == SHIFT_JIS => false,
            0x81..=0xFE => [SHIFT_JIS, GBK, GB18030, BIG5, EUC_KR].contains(&encoding),
            _ => false,
        }
    }

    /// Name in lower case, such as `windows-1252`.
    pub fn name(self) -> String {
        match self {
            Self::Utf8 => "utf-8".to_owned(),
            Self::Utf16Le => "utf-16le".to_owned(),
            Self::Utf16Be => "utf-16be".to_owned(),
            Self::Legacy(encoding) => encoding.name().to_ascii_lowercase(),
        }
    }

    /// Encoding of the byte order mark at the start of a file, and the length of the mark; UTF-8 and 0 without one.
    pub fn sniff(start: &[u8]) -> (Self, usize) {
        match start {
            [0xEF, 0xBB, 0xBF, ..] => (Self::Utf8, 3),
            [0xFF, 0xFE, ..] => (Self::Utf16Le, 2),
            [0xFE, 0xFF, ..] => (Self::Utf16Be, 2),
            _ => (Self::Utf8, 0),
        }
    }
}

impl Serialize for Encoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl<'de> Deserialize<'de> for Encoding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let label = String::deserialize(deserializer)?;
        Self::of_label(&label).ok_or_else(|| D::Error::custom(format!("unknown encoding {label:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_comes_back_by_its_name() {
        for (label, name) in [
            ("UTF-8", "utf-8"),
            ("utf-16", "utf-16le"),
            ("UTF-16BE", "utf-16be"),
            ("latin1", "windows-1252"),
            ("ISO-8859-1", "windows-1252"),
            ("ISO-8859-15", "iso-8859-15"),
            ("Shift_JIS", "shift_jis"),
        ] {
            let encoding = Encoding::of_label(label).expect(label);
            assert_eq!(encoding.name(), name);
            assert_eq!(Encoding::of_label(name), Some(encoding), "{name}");
            let json = serde_json::to_string(&encoding).expect("json");
            assert_eq!(serde_json::from_str::<Encoding>(&json).expect("an encoding"), encoding);
        }
        for label in ["", "ebcdic", "iso-2022-jp", "x-user-defined", "replacement"] {
            assert_eq!(Encoding::of_label(label), None, "{label:?}");
        }
    }
}
