//! Order of the names in a JSON object, as its author wrote them.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

/// Names of an object in their order.
#[derive(Default)]
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Names;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = map.next_entry()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// Names of the fields of an object; empty for anything else.
pub(super) fn of_object(text: &str) -> Vec<String> {
    serde_json::from_str::<Names>(text).unwrap_or_default().0
}

/// Names of the `properties` of a schema; empty if it has none.
pub(crate) fn of_properties(schema: &str) -> Vec<String> {
    #[derive(Default, Deserialize)]
    struct Shape {
        #[serde(default)]
        properties: Names,
    }
    serde_json::from_str::<Shape>(schema).unwrap_or_default().properties.0
}
