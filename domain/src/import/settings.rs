//! Imports of a job type: who may start them, other names of its columns, example rows, and the suggestion of a mapping.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::{
    Document,
    import::mapping::{LONGEST_COLUMN, ValueKind},
    limits::is_text,
};

/// Roles that a person can have.
pub const ROLES: [&str; 3] = ["user", "support", "admin"];

/// Maximum number of properties with aliases.
pub const MOST_ALIASED: usize = 1_000;

/// Maximum number of aliases of a property.
pub const MOST_ALIASES: usize = 20;

/// Maximum number of example rows.
pub const MOST_EXAMPLES: usize = 10;

/// Import settings of a job type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImportSettings {
    /// False if no job of the type can be created from a file.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Roles of people who may create a job from a file. Absent or null: all. Services only need the scope
    /// `jobs:write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,
    /// Other names of columns by property, used to suggest a mapping.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, Vec<String>>,
    /// Content of a template file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<ImportTemplate>,
}

/// Content of a template file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImportTemplate {
    /// Example rows: objects with values by property.
    #[serde(default, deserialize_with = "crate::bounded::list")]
    pub examples: Vec<Document>,
}

const fn yes() -> bool {
    true
}

impl Default for ImportSettings {
    fn default() -> Self {
        Self { enabled: yes(), roles: None, aliases: BTreeMap::new(), template: None }
    }
}

impl ImportSettings {
    /// Returns true if a caller may create a job from a file; `role`: role of a person, `None` for a service.
    pub fn admits(&self, role: Option<&str>) -> bool {
        let allowed = |role: &str| self.roles.as_ref().is_none_or(|roles| roles.iter().any(|one| one == role));
        self.enabled && role.is_none_or(allowed)
    }

    /// Faults: JSON Pointer into the settings, and expectation.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems_found = Vec::new();
        for (place, role) in self.roles.iter().flatten().enumerate() {
            let is_repeated = self.roles.iter().flatten().take(place).any(|other| other == role);
            if is_repeated || !ROLES.contains(&role.as_str()) {
                problems_found
                    .push((format!("/roles/{place}"), "expected user, support or admin, each once".to_owned()));
            }
        }
        self.check_aliases(&mut problems_found);
        let examples = self.template.as_ref().map(|template| template.examples.as_slice()).unwrap_or_default();
        if examples.len() > MOST_EXAMPLES {
            problems_found.push(("/template/examples".to_owned(), format!("expected at most {MOST_EXAMPLES} rows")));
        }
        for (place, example) in examples.iter().enumerate().take(MOST_EXAMPLES) {
            if !example.text().trim_start().starts_with('{') {
                problems_found.push((format!("/template/examples/{place}"), "expected an object".to_owned()));
            }
        }
        problems_found
    }

    fn check_aliases(&self, problems_found: &mut Vec<(String, String)>) {
        if self.aliases.len() > MOST_ALIASED {
            problems_found.push(("/aliases".to_owned(), format!("expected at most {MOST_ALIASED} properties")));
            return;
        }
        let mut seen = HashSet::new();
        for (property, names) in &self.aliases {
            // A pointer to a property of any length is no help.
            let pointer = format!("/aliases/{:.100}", property.replace('~', "~0").replace('/', "~1"));
            if !is_text(property, 1, LONGEST_COLUMN) {
                problems_found.push((pointer.clone(), "expected a property of 1 to 1000 characters".to_owned()));
            }
            if names.len() > MOST_ALIASES {
                problems_found.push((pointer, format!("expected at most {MOST_ALIASES} names")));
                continue;
            }
            for (place, name) in names.iter().enumerate() {
                if !is_text(name, 1, LONGEST_COLUMN) {
                    problems_found.push((format!("{pointer}/{place}"), "expected 1 to 1000 characters".to_owned()));
                } else if !seen.insert(name) {
                    let expected = "expected a name that no other property and no other alias has";
                    problems_found.push((format!("{pointer}/{place}"), expected.to_owned()));
                }
            }
        }
    }
}

/// Suggested column mapping of a file: `GET /uploads/{id}/mapping`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MappingSuggestion {
    /// All columns of the file, in order.
    pub columns: Vec<SuggestedColumn>,
    /// Required properties of the type without a suggested column: a mapping without them is refused
    /// (`mapping_incomplete`).
    pub missing: Vec<String>,
    /// Properties of the type, from its payload schema and its aliases.
    pub properties: Vec<ImportProperty>,
}

/// Column of a file and the property suggested for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SuggestedColumn {
    /// Name in the header of the file.
    pub from: String,
    /// Suggested property; null if none fits, or if the last mapping left the column out (`matched` is `remembered`).
    pub to: Option<String>,
    /// Kind of the values, from the remembered mapping, or from the schema and the first rows.
    #[serde(rename = "as")]
    pub kind: ValueKind,
    /// Notation of the values if it is not the default of the kind; null if the first rows allow several notations.
    pub format: Option<String>,
    /// Reason for the suggestion; null without a suggestion.
    pub matched: Option<MatchKind>,
    /// Confidence, from 0 (no suggestion) to 1 (equal names).
    pub confidence: f64,
}

/// Reason why a property is suggested for a column, from the strongest to the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum MatchKind {
    /// The owner's last mapping for the type has the column, or its file had it and the mapping left it out.
    Remembered,
    /// The names are equal.
    Exact,
    /// The name of the property or one of its aliases is equal, except for case, accents, spaces, and punctuation.
    Alias,
    /// The names are similar.
    Fuzzy,
}

/// Payload property that a column can be mapped to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImportProperty {
    pub name: String,
    /// True if the schema requires it.
    pub required: bool,
    /// JSON type besides `null`, such as `number`; null if the schema allows several or does not say.
    #[serde(rename = "type")]
    pub json_type: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ImportSettings {
        serde_json::from_str(text).expect(text)
    }

    #[test]
    fn import_roles_default_to_everyone() {
        let open = read("{}");
        assert_eq!((open.problems(), &open), (vec![], &ImportSettings::default()));
        assert!(open.admits(Some("user")) && open.admits(None));
        let closed = read(r#"{"enabled":false}"#);
        assert!(!closed.admits(Some("admin")) && !closed.admits(None));
        let staff = read(r#"{"roles":["support","admin"]}"#);
        assert!(staff.admits(Some("support")) && !staff.admits(Some("user")) && staff.admits(None));
        serde_json::from_str::<ImportSettings>(r#"{"role":"user"}"#).expect_err("an unknown field");
    }

    #[test]
    fn every_problem_is_named() {
        let bad = read(
            r#"{"roles":["user","boss","user"],"aliases":{"a/b":["x",""],"c":["x"]},"template":{"examples":[{},1]}}"#,
        );
        let pointers: Vec<String> = bad.problems().into_iter().map(|(pointer, _)| pointer).collect();
        assert_eq!(pointers, ["/roles/1", "/roles/2", "/aliases/a~1b/1", "/aliases/c/0", "/template/examples/1"]);
        let many = |n: usize| (0..n).map(|at| format!("n{at}")).collect::<Vec<_>>();
        let aliases = BTreeMap::from([("a".to_owned(), many(MOST_ALIASES + 1))]);
        let long = ImportSettings { aliases, ..ImportSettings::default() };
        assert_eq!(long.problems()[0].0, "/aliases/a");
        let aliases = many(MOST_ALIASED + 1).into_iter().map(|name| (name, Vec::new())).collect();
        let wide = ImportSettings { aliases, ..ImportSettings::default() };
        assert_eq!(wide.problems()[0].0, "/aliases");
    }
}
