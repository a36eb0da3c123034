//! `TREELINE_LOG_HTTP`: how much of HTTP is logged.

use std::{fmt, str::FromStr};

/// How much of HTTP is logged, always without secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogHttp {
    #[default]
    Off,
    /// Every request in one line.
    Requests,
    /// Also bodies, and what the server sends to others.
    Full,
}

impl FromStr for LogHttp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "" | "0" | "false" | "no" | "off" | "n" | "f" => Ok(Self::Off),
            "1" | "true" | "yes" | "on" | "y" | "t" => Ok(Self::Requests),
            "full" => Ok(Self::Full),
            _ => Err("expected 0, 1, or full".to_owned()),
        }
    }
}

impl fmt::Display for LogHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "0",
            Self::Requests => "1",
            Self::Full => "full",
        })
    }
}
