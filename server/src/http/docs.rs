//! API description as one plain page: every operation with its parameters, bodies and responses.
//!
//! It loads no script and no style from elsewhere; its only style is its own.

use std::fmt::Write as _;

use serde_json::Value;

/// Style of the page.
pub(super) const STYLE: &str = "
:root { color-scheme: light dark; --line: light-dark(#d8ddd6, #35403a); --dim: light-dark(#5a655e, #9aa69e); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h2 { margin: 2.5rem 0 .25rem; text-transform: capitalize; }
p { margin: .25rem 0 1rem; }
details { border-top: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; display: grid; grid-template-columns: 5rem 1fr; gap: .25rem .75rem; align-items: baseline; }
summary span { grid-column: 2; color: var(--dim); }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
b { font: 600 .8rem ui-monospace, monospace; }
table { border-collapse: collapse; margin: .75rem 0; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--dim); }
";

/// Renders the whole document.
pub(super) fn render(document: &Value) -> String {
    let mut page = String::with_capacity(64 << 10);
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Treeline API</title><style>{STYLE}</style>\
         </head><body><main><h1>Treeline API</h1><p>{}</p>\
         <p>The same for programs: <a href=\"/api/v1/openapi.json\">openapi.json</a> (OpenAPI 3.1).</p>",
        escaped(document["info"]["description"].as_str().unwrap_or_default())
    );
    for tag in document["tags"].as_array().into_iter().flatten() {
        section(&mut page, document, tag);
    }
    schemas(&mut page, document);
    page.push_str("</main></body></html>");
    page
}

fn section(page: &mut String, document: &Value, tag: &Value) {
    let name = tag["name"].as_str().unwrap_or_default();
    let description = tag["description"].as_str().unwrap_or_default();
    let _ = write!(page, "<h2>{}</h2><p>{}</p>", escaped(name), escaped(description));
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let tagged = operation["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == name));
            if tagged {
                operation_of(page, method, path, operation);
            }
        }
    }
}

fn operation_of(page: &mut String, method: &str, path: &str, operation: &Value) {
    let summary = operation["summary"].as_str().unwrap_or_default();
    let _ = write!(
        page,
        "<details><summary><b>{}</b><code>{}</code><span>{}</span></summary>",
        escaped(&method.to_uppercase()),
        escaped(path),
        escaped(summary)
    );
    let parameters: Vec<[String; 3]> = operation["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| {
            let place = it["in"].as_str().unwrap_or_default();
            [text(&it["name"]), format!("{place}, {}", shape(&it["schema"])), text(&it["description"])]
        })
        .collect();
    table(page, ["Parameter", "Where and what", "Meaning"], &parameters);
    let bodies: Vec<[String; 3]> = operation["requestBody"]["content"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(kind, content)| [kind.clone(), shape(&content["schema"]), String::new()])
        .collect();
    table(page, ["Body", "Shape", ""], &bodies);
    let answers: Vec<[String; 3]> = operation["responses"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(status, answer)| {
            let shapes: Vec<String> = answer["content"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(_, content)| shape(&content["schema"]))
                .collect();
            [status.clone(), shapes.join(" or "), text(&answer["description"])]
        })
        .collect();
    table(page, ["Answer", "Shape", "Meaning"], &answers);
    page.push_str("</details>");
}

fn schemas(page: &mut String, document: &Value) {
    page.push_str("<h2>Shapes</h2><p>The JSON objects named above.</p>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let _ = write!(page, "<details id=\"{0}\"><summary><b></b><code>{0}</code>", escaped(name));
        let description = schema["description"].as_str().unwrap_or_default();
        let _ = write!(page, "<span>{}</span></summary>", escaped(description));
        let fields: Vec<[String; 3]> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, of)| [field.clone(), shape(of), text(&of["description"])])
            .collect();
        table(page, ["Field", "Shape", "Meaning"], &fields);
        let words: Vec<[String; 3]> = schema["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|word| [text(word), String::new(), String::new()])
            .collect();
        table(page, ["Value", "", ""], &words);
        page.push_str("</details>");
    }
}

fn table(page: &mut String, head: [&str; 3], rows: &[[String; 3]]) {
    if rows.is_empty() {
        return;
    }
    let _ = write!(page, "<table><tr><th>{}</th><th>{}</th><th>{}</th></tr>", head[0], head[1], head[2]);
    for row in rows {
        let _ = write!(
            page,
            "<tr><td><code>{}</code></td><td><code>{}</code></td><td>{}</td></tr>",
            escaped(&row[0]),
            escaped(&row[1]),
            escaped(&row[2])
        );
    }
    page.push_str("</table>");
}

/// Short description of a schema.
fn shape(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        return choices.iter().map(shape).collect::<Vec<_>>().join(" or ");
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(text).collect::<Vec<_>>().join(" or "),
        kind => text(kind),
    };
    if kind.starts_with("array") {
        return kind.replacen("array", &format!("array of {}", shape(&schema["items"])), 1);
    }
    match schema["format"].as_str() {
        Some(format) => format!("{kind} ({format})"),
        None if kind.is_empty() => "any".to_owned(),
        None => kind,
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_reads_like_words() {
        let read = |text: &str| shape(&serde_json::from_str(text).expect("JSON"));
        assert_eq!(read(r##"{"$ref":"#/components/schemas/Job"}"##), "Job");
        assert_eq!(read(r#"{"type":["array","null"],"items":{"type":"string"}}"#), "array of string or null");
        assert_eq!(read(r#"{"type":"string","format":"uuid"}"#), "string (uuid)");
        assert_eq!(escaped("<b>&"), "&lt;b&gt;&amp;");
    }
}
