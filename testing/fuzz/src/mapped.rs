//! Column mappings: the mapping of a request, and cells in the notations of people.

use domain::import::mapping::{Conversion, DateFormat, Mapping, NumberFormat};
use engine::import::split::{CellKind, convert};

/// A mapping as JSON, or else a cell: in each notation it is refused or becomes JSON.
pub fn mapping(data: &[u8]) {
    if let Ok(mapping) = serde_json::from_slice::<Mapping>(data)
        && mapping.problems().is_empty()
    {
        let text = serde_json::to_string(&mapping).expect("JSON");
        assert_eq!(serde_json::from_str::<Mapping>(&text).expect("the same again"), mapping);
        assert!(mapping.columns.iter().all(|column| column.conversion().is_ok()));
    }
    let Ok(cell) = std::str::from_utf8(data) else { return };
    let json = |conversion| {
        convert(cell, conversion, CellKind::NumberOrBoolean)
            .map(|json| serde_json::from_str::<Box<serde_json::value::RawValue>>(&json).expect("JSON"))
    };
    json(Conversion::Boolean);
    assert!(json(Conversion::Text).is_some(), "text is never refused");
    for format in NumberFormat::ALL {
        let number = json(Conversion::Number(format));
        if let Some(whole) = json(Conversion::Integer(format)) {
            let number = number.map(|number| number.get().to_owned());
            assert_eq!(number.as_deref(), Some(whole.get()), "a whole number is a number");
        }
    }
    for format in DateFormat::ALL {
        if let Some(date) = json(Conversion::Date(format))
            && date.get() != "null"
        {
            let iso = date.get().trim_matches('"');
            let again = convert(iso, Conversion::Date(DateFormat::Iso), CellKind::Text);
            assert_eq!(again.as_deref(), Some(date.get()), "a date stays the same date");
        }
    }
}
