//! Events of the streams: of a job, of all trees, and of any set of topics.
//!
//! All state is absolute and carries a `version`; never a delta. So order, gaps and repeats need no
//! protocol, and a reconnect is a snapshot.

use serde::{Deserialize, Serialize};

use crate::{Item, Job};

/// Names of the events on `GET /jobs/{id}/events` and `GET /events`.
pub mod event {
    /// First event: the [`Job`](crate::Job) with its subtree; of all trees, the newest [`Roots`](super::Roots).
    pub const SNAPSHOT: &str = "snapshot";
    /// A [`Change`](super::Change); of all trees, [`Roots`](super::Roots).
    pub const CHANGE: &str = "change";
    /// Too many watchers; try again later.
    pub const BUSY: &str = "busy";
    /// The server is going away; reconnect.
    pub const BYE: &str = "bye";
    /// The job no longer exists; of a connection with topics: what the topic is about.
    pub const REMOVED: &str = "removed";
    /// The topic does not exist or is not visible to the caller; the others continue.
    pub const FORBIDDEN: &str = "forbidden";
}

/// Changed jobs, without children, and the items that workers currently hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Change {
    pub jobs: Vec<Job>,
    /// Items that workers currently hold, oldest first, at most 50, without payloads. The list is complete: an item
    /// that is missing is no longer among the first 50.
    pub items: Vec<Item>,
}

/// Parts of one event of a job's stream, for the API's description: its name, its data, its id.
#[cfg(feature = "openapi")]
#[derive(Clone, Copy, Debug)]
pub struct JobEvent;

/// The same for the stream of all trees.
#[cfg(feature = "openapi")]
#[derive(Clone, Copy, Debug)]
pub struct RootsEvent;

#[cfg(feature = "openapi")]
mod schemas {
    use utoipa::{
        PartialSchema, ToSchema,
        openapi::{
            Ref, RefOr,
            schema::{Object, OneOfBuilder, Schema, SchemaType, Type},
        },
    };

    use super::{JobEvent, RootsEvent, event};

    /// Schema of one event: any of these names, with its data.
    fn one_of<const N: usize>(
        description: &str,
        events: [(&str, &[&'static str], &str, RefOr<Schema>); N],
    ) -> RefOr<Schema> {
        let text = |description: &str| {
            Object::builder().schema_type(SchemaType::new(Type::String)).description(Some(description))
        };
        let event = |(title, names, content, data): (&str, &[&'static str], &str, RefOr<Schema>)| {
            Object::builder()
                .title(Some(title))
                .schema_type(SchemaType::new(Type::Object))
                .property("event", text("Kind of the data").enum_values(Some(names.iter().copied())))
                .property("data", text(content).content_media_type("application/json").content_schema(Some(data)))
                .property("id", text("Opaque id; a reconnect always begins with a snapshot"))
                .property(
                    "retry",
                    Object::builder()
                        .schema_type(SchemaType::new(Type::Integer))
                        .description(Some("Milliseconds until a disconnected client should reconnect")),
                )
                .required("event")
                .required("data")
        };
        let all = OneOfBuilder::new().description(Some(description));
        events.into_iter().fold(all, |all, one| all.item(event(one))).into()
    }

    fn empty() -> RefOr<Schema> {
        Object::builder().schema_type(SchemaType::new(Type::Object)).into()
    }

    /// Object with the topic's name; its other fields depend on the topic.
    fn of_a_topic(versioned: bool) -> RefOr<Schema> {
        let text = Object::builder().schema_type(SchemaType::new(Type::String)).description(Some("Name of the topic"));
        let data =
            Object::builder().schema_type(SchemaType::new(Type::Object)).property("topic", text).required("topic");
        if !versioned {
            return data.into();
        }
        let version = Object::builder()
            .schema_type(SchemaType::new(Type::Integer))
            .description(Some("Version of the data; only increases while the connection is open"));
        data.property("version", version).required("version").into()
    }

    impl PartialSchema for JobEvent {
        fn schema() -> RefOr<Schema> {
            one_of(
                "One event: `snapshot` first (data: a Job with its children), then `change` (data: a Change); \
                 `busy`, `bye` and `removed` (data: an empty object) end the stream",
                [
                    (
                        "JobSnapshotEvent",
                        &[event::SNAPSHOT],
                        "A Job with its children",
                        Ref::from_schema_name("Job").into(),
                    ),
                    ("JobChangeEvent", &[event::CHANGE], "A Change", Ref::from_schema_name("Change").into()),
                    ("JobEndEvent", &[event::BUSY, event::BYE, event::REMOVED], "An empty object", empty()),
                ],
            )
        }
    }

    impl ToSchema for JobEvent {}

    impl PartialSchema for RootsEvent {
        fn schema() -> RefOr<Schema> {
            one_of(
                "One event: `snapshot` first (the newest trees; sent again after too many changes), then `change` (the \
                 trees that changed or were removed); `busy` and `bye` (data: an empty object) end the stream. With \
                 `topics`, each topic begins with its own `snapshot`",
                [
                    (
                        "RootsSnapshotEvent",
                        &[event::SNAPSHOT],
                        "The newest trees",
                        Ref::from_schema_name("Roots").into(),
                    ),
                    ("RootsChangeEvent", &[event::CHANGE], "Trees that changed", Ref::from_schema_name("Roots").into()),
                    (
                        "TopicEvent",
                        &[event::SNAPSHOT, event::CHANGE],
                        "With `topics`: the whole state of a topic; for `roots` and `job:ID`, the changes",
                        of_a_topic(true),
                    ),
                    (
                        "TopicEndEvent",
                        &[event::FORBIDDEN, event::REMOVED],
                        "With `topics`: the topic does not exist, no longer exists, or is not visible to the caller; \
                         the other topics continue",
                        of_a_topic(false),
                    ),
                    ("RootsEndEvent", &[event::BUSY, event::BYE], "An empty object", empty()),
                ],
            )
        }
    }

    impl ToSchema for RootsEvent {}
}

/// List of trees. A page of `GET /jobs` is also a valid list: its jobs, and nothing removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Roots {
    /// Root jobs, without children: the newest hundred, or those that changed.
    #[serde(alias = "data")]
    pub jobs: Vec<Job>,
    /// Ids of trees that were removed.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub removed: Vec<crate::id::Uuid>,
}
