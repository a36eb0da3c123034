//! Filter names of each list, and the parameters of the API that they stand for.
//!
//! A filter becomes the parameters of `GET /jobs` or `GET /items`, so that a page shows the same rows as the API lists and
//! a bulk operation changes. A condition that the list does not support is a fault with its position; none is ignored.
//! Ages (`created:<2h`) are converted to points in time here.

use std::time::Duration;

use super::{Fault, Filter, Term, Test};
use crate::{ItemState, JobStatus, Outcome, Time, id::Uuid};

/// A list that understands filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Jobs,
    Items,
    /// Items in state `dead`.
    Dead,
}

/// Form of a name's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    States,
    Status,
    Outcome,
    Flag,
    Id,
    /// Any of them.
    Ids,
    Row,
    Timestamp,
    Text,
}

/// A name that can stand before a colon, and an example of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub name: &'static str,
    pub example: &'static str,
    kind: Kind,
}

impl Name {
    /// Possible values, if known; for ages, some of them.
    pub fn values(&self) -> Vec<&'static str> {
        match self.kind {
            Kind::States => ItemState::ALL.map(ItemState::as_str).to_vec(),
            Kind::Status => JobStatus::ALL.map(JobStatus::as_str).to_vec(),
            Kind::Outcome => Outcome::ALL.map(Outcome::as_str).to_vec(),
            Kind::Flag => vec!["yes", "no"],
            Kind::Timestamp => vec!["<1h", "<24h", "<7d", ">7d"],
            Kind::Id | Kind::Ids | Kind::Row | Kind::Text => Vec::new(),
        }
    }
}

const fn name(name: &'static str, kind: Kind, example: &'static str) -> Name {
    Name { name, example, kind }
}

const JOBS: &[Name] = &[
    name("status", Kind::Status, "status:running"),
    name("outcome", Kind::Outcome, "outcome:partial"),
    name("type", Kind::Text, "type:import"),
    name("owner", Kind::Text, "owner:\"Ada Lovelace\""),
    name("initiated_by", Kind::Text, "initiated_by:nightly"),
    name("created", Kind::Timestamp, "created:<2h"),
    name("stalled", Kind::Flag, "stalled:yes"),
    name("root", Kind::Flag, "root:no"),
    name("root_id", Kind::Id, "root_id:0199…"),
    name("parent", Kind::Id, "parent:0199…"),
    name("replay_of", Kind::Id, "replay_of:0199…"),
    name("dedupe_key", Kind::Text, "dedupe_key:order-7"),
    name("idempotency_key", Kind::Text, "idempotency_key:order-7"),
    name("id", Kind::Ids, "id:0199…,019a…"),
];

const ITEMS: &[Name] = &[
    name("state", Kind::States, "state:dead,expired"),
    name("type", Kind::Text, "type:import"),
    name("job", Kind::Id, "job:0199…"),
    name("root", Kind::Id, "root:0199…"),
    name("error", Kind::Text, "error:5f3a…"),
    name("row", Kind::Row, "row:42"),
    name("worker", Kind::Text, "worker:w-1"),
    name("created", Kind::Timestamp, "created:<2h"),
    name("dedupe_key", Kind::Text, "dedupe_key:order-7"),
    name("serialize_key", Kind::Text, "serialize_key:customer-7"),
    name("step", Kind::Text, "step:charged"),
    name("id", Kind::Ids, "id:0199…,019a…"),
];

/// Before the name of a field of a job's metadata.
const METADATA: &str = "metadata.";

impl List {
    /// The names it knows, in the order in which people look for them.
    pub fn names(self) -> &'static [Name] {
        match self {
            Self::Jobs => JOBS,
            Self::Items => ITEMS,
            Self::Dead => &ITEMS[1..],
        }
    }

    fn kind(self, wanted: &str) -> Option<Kind> {
        if self == Self::Jobs && wanted.len() > METADATA.len() && wanted.starts_with(METADATA) {
            return Some(Kind::Text);
        }
        self.names().iter().find(|filter_name| filter_name.name == wanted).map(|filter_name| filter_name.kind)
    }
}

impl Filter {
    /// The parameters of the API's list that say the same. `now` is what ages are counted from.
    pub fn parameters(&self, list: List, now: Time) -> Result<Vec<(String, String)>, Fault> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        let mut text: Vec<&str> = Vec::new();
        for (at, term) in self.terms.iter().enumerate() {
            let fault = |detail: String| Fault::new(self.position(at), detail);
            let Some(name) = &term.name else {
                text.push(free_text(term).map_err(fault)?);
                continue;
            };
            let kind = list.kind(name).ok_or_else(|| fault(unknown(list, name)))?;
            if self.terms[..at].iter().any(|before| before.name.as_ref() == Some(name)) {
                return Err(fault(format!("`{name}` stands here twice; write it once")));
            }
            pairs.extend(parameter(name, kind, term, now).map_err(fault)?);
        }
        if !text.is_empty() {
            pairs.push(("q".to_owned(), text.join(" ")));
        }
        Ok(pairs)
    }

    /// The filter that such parameters say; those that no filter says are left out.
    pub fn of_parameters(list: List, pairs: &[(String, String)]) -> Self {
        let value = |wanted: &str| pairs.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
        let mut terms: Vec<Term> = pairs
            .iter()
            .filter_map(|(name, value)| match list.kind(name)? {
                Kind::States | Kind::Ids => {
                    let words = value.split(',').map(|word| word.trim().to_owned()).collect();
                    Some(Term { not: false, name: Some(name.clone()), test: Test::Any(words) })
                }
                Kind::Flag => Some(Term::is(name, if value == "true" { "yes" } else { "no" })),
                _ => Some(Term::is(name, value)),
            })
            .collect();
        let test = match (value("created_after"), value("created_before")) {
            (Some(from), Some(to)) => Some(Test::Between(from, to)),
            (Some(from), None) => Some(Test::Above(from)),
            (None, Some(to)) => Some(Test::Below(to)),
            (None, None) => None,
        };
        terms.extend(test.map(|test| Term { not: false, name: Some("created".to_owned()), test }));
        terms.extend(value("q").map(|text| Term::text(&text)));
        terms.into()
    }
}

fn unknown(list: List, name: &str) -> String {
    let names: Vec<&str> = list.names().iter().map(|filter_name| filter_name.name).collect();
    let names = names.join(", ");
    let more = if list == List::Jobs { ", metadata.<name>" } else { "" };
    format!(
        "`{name}` is no filter of this list, which knows {names}{more}; to search for a text with a colon, put it in quotes"
    )
}

fn free_text(term: &Term) -> Result<&str, String> {
    match &term.test {
        _ if term.not => Err("a text cannot be excluded; take the - away, or put it in quotes".to_owned()),
        Test::Any(words) if words.len() == 1 && !words[0].is_empty() && !words[0].contains('\0') => Ok(&words[0]),
        _ => Err("expected a text".to_owned()),
    }
}

fn parameter(name: &str, kind: Kind, term: &Term, now: Time) -> Result<Vec<(String, String)>, String> {
    if kind == Kind::Timestamp {
        return time_range_parameters(name, term, now);
    }
    let Test::Any(words) = &term.test else {
        return Err(format!("`{name}` has no order; write {name}:value"));
    };
    if kind == Kind::States {
        return Ok(vec![(name.to_owned(), states(words, term.not)?)]);
    }
    if term.not {
        return Err(format!("`{name}` cannot be excluded here"));
    }
    if kind == Kind::Ids {
        return Ok(vec![(name.to_owned(), ids(words)?)]);
    }
    let [word] = words.as_slice() else {
        return Err(format!("expected one value of `{name}`"));
    };
    if word.is_empty() || word.contains('\0') {
        return Err(format!("expected a value of `{name}`"));
    }
    let value = match kind {
        Kind::Status if JobStatus::parse(word).is_none() => {
            return Err(one_of(name, &JobStatus::ALL.map(JobStatus::as_str)));
        }
        Kind::Outcome if Outcome::parse(word).is_none() => {
            return Err(one_of(name, &Outcome::ALL.map(Outcome::as_str)));
        }
        Kind::Flag => match word.as_str() {
            "yes" | "true" => "true".to_owned(),
            "no" | "false" => "false".to_owned(),
            _ => return Err(format!("expected {name}:yes or {name}:no")),
        },
        Kind::Id => Uuid::parse_str(word).map_err(|_| format!("expected the whole id after `{name}:`"))?.to_string(),
        Kind::Row if word.parse::<i64>().map_or(true, |row| row < 1) => {
            return Err("expected the number of a line, from 1".to_owned());
        }
        _ => word.clone(),
    };
    Ok(vec![(name.to_owned(), value)])
}

fn one_of(name: &str, words: &[&str]) -> String {
    format!("expected one of {} after `{name}:`", words.join(", "))
}

fn ids(words: &[String]) -> Result<String, String> {
    let read: Option<Vec<String>> = words.iter().map(|word| Some(Uuid::parse_str(word).ok()?.to_string())).collect();
    read.map(|ids| ids.join(",")).ok_or_else(|| "expected whole ids after `id:`, with commas between them".to_owned())
}

fn states(words: &[String], not: bool) -> Result<String, String> {
    let named: Option<Vec<ItemState>> = words.iter().map(|word| ItemState::parse(word)).collect();
    let named = named.ok_or_else(|| one_of("state", &ItemState::ALL.map(ItemState::as_str)))?;
    let wanted: Vec<&str> =
        ItemState::ALL.into_iter().filter(|state| named.contains(state) != not).map(ItemState::as_str).collect();
    if wanted.is_empty() { Err("no state is left".to_owned()) } else { Ok(wanted.join(",")) }
}

fn time_range_parameters(name: &str, term: &Term, now: Time) -> Result<Vec<(String, String)>, String> {
    if term.not {
        return Err(format!("`{name}` cannot be excluded; turn the sign round"));
    }
    let after = |at: String| (format!("{name}_after"), at);
    let before = |at: String| (format!("{name}_before"), at);
    match &term.test {
        // An age: less than two hours ago is after a point in time.
        Test::Below(word) if age(word).is_some() => Ok(vec![after(ago(word, now)?)]),
        Test::Above(word) if age(word).is_some() => Ok(vec![before(ago(word, now)?)]),
        Test::Above(word) => Ok(vec![after(parse_time(word)?)]),
        Test::Below(word) => Ok(vec![before(parse_time(word)?)]),
        Test::Between(from, to) => Ok(vec![after(parse_time(from)?), before(parse_time(to)?)]),
        Test::Any(_) => {
            Err(format!("expected a range, such as {name}:>2026-11-01, {name}:2026-11-01..2026-11-08 or {name}:<2h"))
        }
    }
}

/// A date (its midnight in UTC) or an RFC 3339 time.
fn parse_time(word: &str) -> Result<String, String> {
    Time::parse(word).or_else(|| Time::parse(&format!("{word}T00:00:00Z"))).map(Time::to_rfc3339).ok_or_else(|| {
        "expected a date such as 2026-11-01, a time such as 2026-11-01T14:03:07Z, or an age such as 2h".to_owned()
    })
}

/// `45s`, `30m`, `2h`, `7d`, `2w`.
fn age(word: &str) -> Option<Duration> {
    let unit = word.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    let number = &word[..word.len() - 1];
    let number: u64 =
        number.parse().ok().filter(|_| number.len() <= 6 && number.bytes().all(|b| b.is_ascii_digit()))?;
    Some(Duration::from_secs(number * seconds))
}

fn ago(word: &str, now: Time) -> Result<String, String> {
    let point_in_time = age(word).and_then(|age| now.0.checked_sub(age.try_into().ok()?));
    let point_in_time = point_in_time.and_then(|point_in_time| point_in_time.replace_nanosecond(0).ok());
    point_in_time
        .and_then(|point_in_time| Time(point_in_time).checked())
        .map(Time::to_rfc3339)
        .ok_or_else(|| "that is longer ago than anything".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: List, text: &str) -> Result<String, Fault> {
        let now = Time::parse("2026-11-20T14:03:07.25Z").expect("a time");
        let pairs = Filter::parse(text)?.parameters(list, now)?;
        Ok(pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&"))
    }

    #[test]
    fn filter_converts_to_api_parameters() {
        for (list, text, query) in [
            (List::Jobs, "status:running metadata.team:hr march pay", "status=running&metadata.team=hr&q=march pay"),
            (List::Jobs, "stalled:yes created:<2h", "stalled=true&created_after=2026-11-20T12:03:07Z"),
            (List::Items, "state:expired,dead", "state=dead,expired"),
            (
                List::Items,
                "-state:succeeded,dead,cancelled,expired",
                "state=running,waiting_for_event,retryable,available,scheduled,blocked",
            ),
            (List::Dead, "type:import row:42 \"a: b\"", "type=import&row=42&q=a: b"),
            (List::Items, "id:00000000-0000-7000-8000-00000000000A", "id=00000000-0000-7000-8000-00000000000a"),
            (List::Dead, "created:>7d", "created_before=2026-11-13T14:03:07Z"),
            (
                List::Dead,
                "created:2026-11-01..2026-11-02T03:00:00+01:00",
                "created_after=2026-11-01T00:00:00Z&created_before=2026-11-02T02:00:00Z",
            ),
        ] {
            assert_eq!(read(list, text).as_deref(), Ok(query), "{text}");
        }
    }

    #[test]
    fn unsupported_filter_term_error_has_position() {
        for (list, text, at, word) in [
            (List::Jobs, "colour:red", 1, "no filter"),
            (List::Dead, "type:a state:dead", 8, "no filter"),
            (List::Jobs, "status:asleep", 1, "waiting, running"),
            (List::Jobs, "x -status:running", 3, "excluded"),
            (List::Items, "type:a,b", 1, "one value"),
            (List::Items, "type:a type:b", 8, "twice"),
            (List::Items, "job:12", 1, "whole id"),
            (List::Jobs, "id:00000000-0000-7000-8000-00000000000a,12", 1, "whole ids"),
            (List::Items, "-id:00000000-0000-7000-8000-00000000000a", 1, "excluded"),
            (List::Items, "row:0", 1, "from 1"),
            (List::Items, "created:2026-11-01", 1, "range"),
            (List::Items, "created:>soon", 1, "date"),
            (List::Items, "-word", 1, "excluded"),
            (List::Items, "type:>a", 1, "order"),
        ] {
            let fault = read(list, text).expect_err(text);
            assert_eq!(fault.at, at, "{text}");
            assert!(fault.detail.contains(word), "{text}: {fault}");
        }
    }

    #[test]
    fn offered_filter_values_parse() {
        for list in [List::Jobs, List::Items, List::Dead] {
            for name in list.names() {
                for value in name.values() {
                    let text = format!("{}:{value}", name.name);
                    assert!(read(list, &text).is_ok(), "{text}");
                }
            }
        }
    }

    #[test]
    fn api_parameters_convert_to_filter() {
        for (list, text) in [
            (List::Jobs, "status:running stalled:yes metadata.team:hr march"),
            (List::Items, "state:dead,expired row:42 created:2026-11-01T00:00:00Z..2026-11-02T00:00:00Z"),
            (List::Jobs, "id:00000000-0000-7000-8000-00000000000a,00000000-0000-7000-8000-00000000000b"),
            (List::Dead, "error:5f3a created:>2026-11-01T00:00:00Z \"no such user\""),
        ] {
            let filter = Filter::parse(text).expect(text);
            let pairs = filter.parameters(list, Time::parse("2026-11-20T14:03:07Z").expect("a time")).expect(text);
            assert_eq!(Filter::of_parameters(list, &pairs).to_string(), text);
        }
    }
}
