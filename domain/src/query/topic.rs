//! The topics of `GET /events?topics=…`: what one connection can watch, and how the list of them is read.
//!
//! Apart from [`change`](crate::tree::change), which is what the events hold: this is what is asked for. Who may see a topic is
//! the server's business.

use std::fmt;

use crate::id::Uuid;

/// Topics of one connection, at most.
pub const MOST_TOPICS: usize = 64;

/// Something that can be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// All trees that the caller sees, in brief.
    Roots,
    /// A job with its subtree.
    Job(Uuid),
    Item(Uuid),
    /// The caller's own uploads.
    Imports,
    /// Error groups with their counts.
    Failures,
    /// Bulk operations.
    Operations,
    Workers,
    /// Job types.
    Types,
    /// Rates, counts and alerts of everything.
    Overview,
    /// Callbacks of complete trees.
    Deliveries,
    /// Schedules with their last runs.
    Schedules,
    /// The person's own notices.
    Notices,
}

impl Topic {
    /// A topic by its name, `job:ID` and `item:ID` with the id.
    pub fn parse(name: &str) -> Option<Self> {
        // Only the usual form of an id: a topic has one name.
        let id = |id: &str| if id.len() == 36 { Uuid::try_parse(id).ok() } else { None };
        Some(match name {
            "roots" => Self::Roots,
            "imports" => Self::Imports,
            "failures" => Self::Failures,
            "operations" => Self::Operations,
            "workers" => Self::Workers,
            "types" => Self::Types,
            "overview" => Self::Overview,
            "deliveries" => Self::Deliveries,
            "schedules" => Self::Schedules,
            "notices" => Self::Notices,
            _ => match name.split_once(':')? {
                ("job", job) => Self::Job(id(job)?),
                ("item", item) => Self::Item(id(item)?),
                _ => return None,
            },
        })
    }

    /// The list of a request: names with commas between them, each once. The error is what was expected.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, String> {
        let mut topics = Vec::new();
        for name in list.split(',') {
            let topic = Self::parse(name).ok_or_else(|| {
                "expected any of roots, job:ID, item:ID, imports, failures, operations, workers, types, overview, \
                 deliveries, schedules, notices, with commas between them"
                    .to_owned()
            })?;
            if !topics.contains(&topic) {
                topics.push(topic);
            }
            if topics.len() > MOST_TOPICS {
                return Err(format!("expected at most {MOST_TOPICS} topics"));
            }
        }
        Ok(topics)
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Roots => "roots",
            Self::Job(id) => return write!(f, "job:{id}"),
            Self::Item(id) => return write!(f, "item:{id}"),
            Self::Imports => "imports",
            Self::Failures => "failures",
            Self::Operations => "operations",
            Self::Workers => "workers",
            Self::Types => "types",
            Self::Overview => "overview",
            Self::Deliveries => "deliveries",
            Self::Schedules => "schedules",
            Self::Notices => "notices",
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0197a000-0000-7000-8000-0000000000af";

    #[test]
    fn topic_round_trips() {
        let list = format!(
            "roots,job:{ID},item:{ID},imports,failures,operations,workers,types,overview,deliveries,schedules,notices"
        );
        let topics = Topic::parse_list(&list).expect("topics");
        assert_eq!(topics.len(), 12);
        assert_eq!(topics.iter().map(Topic::to_string).collect::<Vec<_>>().join(","), list);
    }

    #[test]
    fn topics_are_deduplicated_and_limited() {
        assert_eq!(Topic::parse_list("roots,types,roots"), Ok(vec![Topic::Roots, Topic::Types]));
        let item = |n: u128| format!("item:{}", Uuid::from_u128(n));
        let many = |n: u128| (0..n).map(item).collect::<Vec<_>>().join(",");
        assert_eq!(Topic::parse_list(&many(64)).map(|topics| topics.len()), Ok(64));
        assert!(Topic::parse_list(&many(65)).is_err());
    }

    #[test]
    fn invalid_topic_is_refused() {
        for bad in ["", "root", "roots,", "job", "job:", "job:x", "item:{}", " roots", "Roots", "types:1"] {
            assert!(Topic::parse_list(bad).is_err(), "{bad:?}");
        }
        let braced = format!("job:{{{ID}}}");
        assert!(Topic::parse(&braced).is_none(), "{braced}");
    }
}
