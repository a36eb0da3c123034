//! A point in time in the API: RFC 3339, UTC, microseconds. It is never read from a clock here; the database's clock
//! decides (`database-clock`).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

/// A point in time. Serialises as RFC 3339 in UTC; accepts any RFC 3339 offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub OffsetDateTime);

impl Time {
    /// RFC 3339 text in UTC, for example `2026-11-20T14:03:07.25Z`.
    pub fn to_rfc3339(self) -> String {
        let utc = self.0.to_offset(UtcOffset::UTC);
        utc.format(&Rfc3339).unwrap_or_else(|_| utc.to_string())
    }

    /// Reads RFC 3339; `None` when it is something else, or a moment that cannot be written as that in UTC (before the
    /// year 0, after 9999).
    pub fn parse(text: &str) -> Option<Self> {
        Self(OffsetDateTime::parse(text, &Rfc3339).ok()?).checked()
    }

    /// The same moment in UTC, if RFC 3339 can say it.
    pub fn checked(self) -> Option<Self> {
        self.0.checked_to_offset(UtcOffset::UTC).filter(|utc| utc.year() >= 0).map(Self)
    }

    /// Seconds from `earlier` to this time; negative when it is the other way round.
    pub fn seconds_since(self, earlier: Time) -> f64 {
        (self.0 - earlier.0).as_seconds_f64()
    }

    /// Milliseconds since 1970, as the browser counts.
    pub fn unix_millis(self) -> i64 {
        (self.0.unix_timestamp_nanos() / 1_000_000) as i64
    }
}

impl From<OffsetDateTime> for Time {
    fn from(at: OffsetDateTime) -> Self {
        Self(at)
    }
}

impl From<Time> for OffsetDateTime {
    fn from(at: Time) -> Self {
        at.0
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_rfc3339())
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("expected an RFC 3339 time such as 2026-11-20T14:03:07Z"))
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{KnownFormat, Object, SchemaFormat, SchemaType, Type};
        Object::builder()
            .schema_type(SchemaType::Type(Type::String))
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Time {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_reads_any_offset_and_writes_utc() {
        let at = Time::parse("2026-11-20T15:03:07.25+01:00").expect("a time");
        assert_eq!(at.to_rfc3339(), "2026-11-20T14:03:07.25Z");
        assert_eq!(Time::parse("20 November"), None);
    }
}
