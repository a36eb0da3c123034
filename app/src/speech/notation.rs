//! Notation of numbers and dates in a locale, from the data of the Unicode CLDR.

use domain::Time;
use icu_calendar::{Date, Gregorian};
use icu_datetime::{
    FixedCalendarDateTimeFormatter, NoCalendarFormatter,
    fieldsets::{MDT, T, YMDT},
    input::{DateTime, Time as ClockTime},
    options::TimePrecision,
};
use icu_decimal::{DecimalFormatter, input::Decimal};
use icu_locale_core::Locale;

use super::form::NumberFormat;

/// Notation of numbers and dates.
pub struct Notation {
    /// BCP 47 tag: `de-CH`.
    pub tag: String,
    pub(super) number_format: NumberFormat,
    time_of_day: Option<NoCalendarFormatter<T>>,
    minute: Dates,
    second: Dates,
}

/// Notation of dates with the time of day.
struct Dates {
    of_this_year: Option<FixedCalendarDateTimeFormatter<Gregorian, MDT>>,
    of_another_year: Option<FixedCalendarDateTimeFormatter<Gregorian, YMDT>>,
}

impl Dates {
    fn new(locale: &Locale, precision: TimePrecision) -> Self {
        let (without, with) = (MDT::medium(), YMDT::medium());
        Self {
            of_this_year: FixedCalendarDateTimeFormatter::try_new(
                locale.into(),
                without.with_time_precision(precision),
            )
            .ok(),
            of_another_year: FixedCalendarDateTimeFormatter::try_new(
                locale.into(),
                with.with_time_precision(precision),
            )
            .ok(),
        }
    }

    fn write(&self, at: Time, is_this_year: bool) -> String {
        let written = date_time(at).and_then(|date| {
            if is_this_year {
                Some(self.of_this_year.as_ref()?.format(&date).to_string())
            } else {
                Some(self.of_another_year.as_ref()?.format(&date).to_string())
            }
        });
        written.unwrap_or_else(|| at.to_rfc3339())
    }
}

impl std::fmt::Debug for Notation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notation")
            .field("tag", &self.tag)
            .field("number_format", &self.number_format)
            .finish_non_exhaustive()
    }
}

impl Notation {
    /// Notation of a locale. `None` if the tag is not one.
    pub fn of(tag: &str) -> Option<Self> {
        let locale: Locale = tag.parse().ok()?;
        // The browser's numbers are compared with the server's: both use the digits 0 to 9.
        let latin: Locale = format!("{tag}-u-nu-latn").parse().ok()?;
        Some(Self {
            tag: locale.to_string(),
            number_format: number_format(&latin),
            time_of_day: NoCalendarFormatter::try_new((&latin).into(), T::hm()).ok(),
            minute: Dates::new(&latin, TimePrecision::Minute),
            second: Dates::new(&latin, TimePrecision::Second),
        })
    }

    /// `14:03`, from a time whose UTC fields are the reader's.
    pub(crate) fn time_of_day(&self, at: Time) -> String {
        clock(at)
            .zip(self.time_of_day.as_ref())
            .map_or_else(|| at.to_rfc3339(), |(at, form)| form.format(&at).to_string())
    }

    /// `20. Nov., 14:03`, or `20.11.2025, 14:03` of another year, from a time whose UTC fields are the reader's.
    pub(crate) fn minute(&self, at: Time, is_this_year: bool) -> String {
        self.minute.write(at, is_this_year)
    }

    /// `20. Nov., 14:03:07`
    pub(crate) fn second(&self, at: Time, is_this_year: bool) -> String {
        self.second.write(at, is_this_year)
    }
}

fn clock(Time(at): Time) -> Option<ClockTime> {
    ClockTime::try_new(at.hour(), at.minute(), at.second(), 0).ok()
}

fn date_time(at: Time) -> Option<DateTime<Gregorian>> {
    let Time(day) = at;
    let date = Date::try_new_gregorian(day.year(), day.month().into(), day.day()).ok()?;
    Some(DateTime { date, time: clock(at)? })
}

/// Separators and sizes of groups, read off samples.
fn number_format(locale: &Locale) -> NumberFormat {
    let Ok(formatter) =
        DecimalFormatter::try_new(locale.into(), icu_decimal::options::DecimalFormatterOptions::default())
    else {
        return NumberFormat::default();
    };
    let written =
        |text: &str| text.parse().map_or_else(|_| String::new(), |n: Decimal| formatter.format(&n).to_string());
    let sample = written("1234567890.5");
    let between = |from: char, to: char| {
        let start = sample.find(from).map_or(0, |at| at + from.len_utf8());
        sample.get(start..).and_then(|rest| rest.split(to).next()).unwrap_or_default()
    };
    let group = between('7', '8').to_owned();
    let decimal = between('0', '5');
    // The last digit of a whole number and the first of its fraction enclose the decimal separator.
    let decimal = if decimal.is_empty() { "." } else { decimal }.to_owned();
    let least = if group.is_empty() || written("1234").len() > 4 { 1 } else { 2 };
    let whole = sample.split(decimal.as_str()).next().unwrap_or_default();
    let groups: Vec<u8> = match group.as_str() {
        "" => Vec::new(),
        group => whole.split(group).map(|digits| digits.len() as u8).collect(),
    };
    let last = groups.last().copied().unwrap_or(0);
    let sizes = (last, groups.iter().rev().nth(1).copied().unwrap_or(last));
    NumberFormat { group, decimal, sizes, least }
}
