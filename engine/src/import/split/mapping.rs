//! Column mapping in the head of a file.

use std::{borrow::Cow, collections::HashSet};

use domain::import::mapping::Mapping;

use super::{Head, returned::Shape};

/// Reason why a mapping does not fit a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingError {
    /// The file has no names of columns.
    NoNames,
    /// Indexes of the mapped columns that the file does not have.
    Unknown(Vec<usize>),
}

impl Head {
    /// Sets the mapping of the columns.
    ///
    /// # Errors
    ///
    /// The file has no header, or not these columns.
    pub fn with_mapping(self, mapping: Mapping) -> Result<Self, MappingError> {
        let names: HashSet<&str> =
            self.data_columns().ok_or(MappingError::NoNames)?.iter().map(String::as_str).collect();
        let unknown: Vec<usize> =
            (0..mapping.columns.len()).filter(|&place| !names.contains(mapping.columns[place].from.as_str())).collect();
        if !unknown.is_empty() {
            return Err(MappingError::Unknown(unknown));
        }
        Ok(Self { mapping: Some(mapping), ..self })
    }

    /// Names of the properties of a payload, if the file has a header.
    pub fn payload_columns(&self) -> Option<Cow<'_, [String]>> {
        match &self.mapping {
            Some(mapping) => Some(mapping.columns.iter().map(|column| column.to.clone()).collect()),
            None => self.data_columns().map(Cow::Borrowed),
        }
    }

    /// Number of values of a payload; 0 if it is not made of cells.
    pub fn payload_width(&self) -> usize {
        match &self.mapping {
            Some(mapping) => mapping.columns.len(),
            None if self.shape() == Shape::Json => 0,
            None => self.data_width(),
        }
    }

    /// Index in the file of the column that became this value of the payload.
    pub fn source_column(&self, place: usize) -> Option<usize> {
        let Some(mapping) = &self.mapping else { return Some(place) };
        let from = &mapping.columns.get(place)?.from;
        self.data_columns()?.iter().position(|name| name == from)
    }
}
