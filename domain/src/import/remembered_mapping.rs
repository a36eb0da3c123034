//! Column mapping that an owner used last for a type, as it is stored: with the columns that were left out on purpose.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::import::mapping::{MappedColumn, Mapping};

/// Mapping of the last file, and what it left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedMapping {
    pub columns: Vec<MappedColumn>,
    /// Columns of that file that became no property.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

impl RememberedMapping {
    /// Mapping of a file with these columns.
    pub fn of(mapping: &Mapping, columns: &[String]) -> Self {
        let mapped: HashSet<&str> = mapping.columns.iter().map(|column| column.from.as_str()).collect();
        let left_out = columns.iter().filter(|name| !mapped.contains(name.as_str())).cloned().collect();
        Self { columns: mapping.columns.clone(), left_out }
    }
}
