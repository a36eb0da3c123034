//! Position in a distributed trace, as the header `traceparent` names it (W3C Trace Context).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Trace, span, and flags. Displayed as version `00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Traceparent {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    /// Bit 0: the caller records the trace.
    pub flags: u8,
}

/// Text that is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a traceparent, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    }
}

/// Length of version `00`. A later version may only append to it.
const LENGTH: usize = 55;

impl Traceparent {
    /// Returns true if the caller records the trace.
    pub const fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// Same trace, at another span.
    #[must_use]
    pub const fn at(self, span_id: [u8; 8]) -> Self {
        Self { span_id, ..self }
    }
}

impl FromStr for Traceparent {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let bytes = text.as_bytes();
        let version = hex::<1>(bytes.get(..2).ok_or(Invalid)?)?[0];
        let is_complete = match version {
            0 => bytes.len() == LENGTH,
            0xff => false,
            _ => bytes.len() == LENGTH || bytes.get(LENGTH) == Some(&b'-'),
        };
        if !is_complete || [2, 35, 52].iter().any(|&at| bytes[at] != b'-') {
            return Err(Invalid);
        }
        let (trace_id, span_id) = (hex::<16>(&bytes[3..35])?, hex::<8>(&bytes[36..52])?);
        let [flags] = hex::<1>(&bytes[53..LENGTH])?;
        if trace_id == [0; 16] || span_id == [0; 8] {
            return Err(Invalid);
        }
        // Flags of later versions are not defined here and must not be passed on.
        Ok(Self { trace_id, span_id, flags: if version == 0 { flags } else { flags & 1 } })
    }
}

/// Bytes of lowercase hexadecimal digits.
fn hex<const N: usize>(digits: &[u8]) -> Result<[u8; N], Invalid> {
    const fn value(digit: u8) -> Result<u8, Invalid> {
        match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(Invalid),
        }
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Ok(bytes)
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-")?;
        self.span_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{:02x}", self.flags)
    }
}

impl Serialize for Traceparent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Traceparent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_traceparent_is_read_and_written() {
        let read: Traceparent = VALID.parse().expect("a traceparent");
        assert!(read.is_sampled());
        assert_eq!(read.to_string(), VALID);
        assert_eq!(read.at([1; 8]).to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0101010101010101-01");
        assert!(!VALID.replace("-01", "-00").parse::<Traceparent>().expect("a traceparent").is_sampled());
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        for later in [VALID.replacen("00", "01", 1), format!("{}-more", VALID.replacen("00", "cc", 1))] {
            assert_eq!(later.parse::<Traceparent>().map(|read| read.to_string()).as_deref(), Ok(VALID), "{later}");
        }
    }

    #[test]
    fn invalid_ones_are_refused() {
        let invalid = [
            "",
            "00",
            &VALID[..54],
            &format!("{VALID}-"),
            &format!("{VALID} "),
            &format!(" {VALID}"),
            &VALID.to_uppercase(),
            &VALID.replacen("00", "ff", 1),
            &VALID.replace('-', "_"),
            &VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &VALID.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &VALID.replace("4bf9", "4bg9"),
            &VALID.replace("4bf9", "4bé"),
            &format!("{}x", VALID.replacen("00", "01", 1)),
        ];
        for text in invalid {
            assert_eq!(text.parse::<Traceparent>(), Err(Invalid), "{text}");
        }
    }
}
