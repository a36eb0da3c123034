//! A request as a program sends it: with curl, the SDKs, the Rust client, and the command line.
//!
//! Operations for which a client has a method are in [`methods`](super::methods).

use domain::Document;

use super::methods::{is_many, methods_of};

/// Parts of a request, with a value for everything that is needed.
#[derive(Clone, Debug, Default)]
pub struct RequestParts {
    pub method: String,
    /// Whole path with the values in it.
    pub path: String,
    /// Values of the path in order.
    pub values: Vec<String>,
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, String)>,
    pub body: Option<Document>,
}

/// A request in one language.
pub(super) struct Snippet {
    pub id: &'static str,
    pub name: &'static str,
    pub text: String,
}

impl RequestParts {
    /// Path below the server, with the query.
    pub fn target(&self) -> String {
        let pairs: Vec<(&str, &str)> = self.query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        crate::address::address(&self.path, &pairs)
    }

    /// The request in every language that has it.
    pub(super) fn snippets(&self, operation: &str) -> Vec<Snippet> {
        let methods = methods_of(operation);
        let mut all = vec![
            Snippet { id: "curl", name: "curl", text: self.curl() },
            Snippet { id: "python", name: "Python", text: self.python(methods.python) },
            Snippet { id: "typescript", name: "TypeScript", text: self.typescript(methods.typescript) },
        ];
        if !methods.rust.is_empty() {
            all.push(Snippet { id: "rust", name: "Rust", text: self.rust(methods.rust) });
        }
        if !methods.cli.is_empty() {
            let text = format!("treeline {}", self.filled(methods.cli, word));
            all.push(Snippet { id: "cli", name: "Command line", text });
        }
        all
    }

    fn short_path(&self) -> &str {
        self.path.strip_prefix("/api/v1").unwrap_or(&self.path)
    }

    /// Call with the values of the path.
    fn filled(&self, call: &str, write: impl Fn(&str) -> String) -> String {
        self.values
            .iter()
            .enumerate()
            .fold(call.to_owned(), |call, (at, value)| call.replace(&format!("{{{at}}}"), &write(value)))
    }

    /// A method of a client takes neither headers nor, unless it has a place for it, a query of plain names.
    fn fits(&self, call: &str) -> bool {
        let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let takes_query = call.contains("{query}") && self.query.iter().all(|(name, _)| is_plain(name));
        !call.is_empty() && self.headers.is_empty() && (self.query.is_empty() || takes_query)
    }

    fn curl(&self) -> String {
        let mut lines = vec![format!("curl -X {} {}", self.method, shell(&format!("$TREELINE_URL{}", self.target())))];
        lines.push("  -H \"Authorization: Bearer $TREELINE_TOKEN\"".to_owned());
        lines.extend(self.headers.iter().map(|(name, value)| format!("  -H {}", shell(&format!("{name}: {value}")))));
        if let Some(body) = &self.body {
            lines.push("  -H \"Content-Type: application/json\"".to_owned());
            lines.push(format!("  -d {}", word_always(body.text())));
        }
        lines.join(" \\\n")
    }

    fn python(&self, method: &str) -> String {
        let call = if self.fits(method) {
            let body = self.body.as_ref().map_or("{}".to_owned(), |body| python_value(body.text()));
            let query: Vec<String> =
                self.query.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
            // The body last: it may contain what looks like a placeholder.
            self.filled(&method.replace("{query}", &query.join(", ")), quoted).replace("{body}", &body)
        } else {
            let mut arguments = vec![quoted(&self.method), quoted(self.short_path())];
            if !self.query.is_empty() {
                arguments.push(format!("params={}", object(&self.query)));
            }
            if let Some(body) = &self.body {
                arguments.push(format!("body={}", python_value(body.text())));
            }
            if !self.headers.is_empty() {
                arguments.push(format!("headers={}", object(&self.headers)));
            }
            format!("request({})", arguments.join(", "))
        };
        let many = is_many(method) && self.fits(method);
        let print = if many {
            format!("for one in client.{call}:\n        print(one)")
        } else {
            format!("print(client.{call})")
        };
        format!("from treeline import Client\n\nwith Client() as client:\n    {print}")
    }

    fn typescript(&self, method: &str) -> String {
        let call = if self.fits(method) {
            let body = self.body.as_ref().map_or("{}", |body| body.text());
            let query = if self.query.is_empty() { String::new() } else { object(&self.query) };
            self.filled(&method.replace("{query}", &query), quoted).replace("{body}", body)
        } else {
            let mut options = Vec::new();
            if !self.query.is_empty() {
                options.push(format!("params: {}", object(&self.query)));
            }
            if let Some(body) = &self.body {
                options.push(format!("body: {}", body.text()));
            }
            if !self.headers.is_empty() {
                options.push(format!("headers: {}", object(&self.headers)));
            }
            let options = if options.is_empty() { String::new() } else { format!(", {{ {} }}", options.join(", ")) };
            format!("request({}, {}{options})", quoted(&self.method), quoted(self.short_path()))
        };
        let many = is_many(method) && self.fits(method);
        let print = if many {
            format!("for await (const one of client.{call}) {{\n  console.log(one);\n}}")
        } else {
            format!("console.log(await client.{call});")
        };
        format!("import {{ Client }} from '@treeline/client';\n\nconst client = new Client();\n{print}")
    }

    fn rust(&self, method: &str) -> String {
        let types = ["JobFilter", "ItemFilter", "AuditFilter", "PageQuery"];
        let used: Vec<&str> = types.into_iter().filter(|name| method.contains(name)).collect();
        let uses = if used.is_empty() { "Client".to_owned() } else { format!("{{Client, {}}}", used.join(", ")) };
        let paths = if method.contains("Path::") { "use std::path::Path;\n\n" } else { "" };
        let body = if method.contains("&body") {
            let text = self.body.as_ref().map_or("{}", |body| body.text());
            format!("let body = serde_json::from_str({})?;\n", raw(text))
        } else {
            String::new()
        };
        let (address, token) = ("&std::env::var(\"TREELINE_URL\")?", "Some(&std::env::var(\"TREELINE_TOKEN\")?)");
        let call = self.filled(method, quoted);
        format!(
            "{paths}use client::{uses};\n\nlet client = Client::new({address}, {token})?;\n{body}client.{call}.await?;"
        )
    }
}

/// Argument of a shell in double quotes, in which only `$TREELINE_URL` at the beginning is a variable.
fn shell(text: &str) -> String {
    let (variable, rest) = text.strip_prefix("$TREELINE_URL").map_or(("", text), |rest| ("$TREELINE_URL", rest));
    let mut safe = String::from(variable);
    for c in rest.chars() {
        if matches!(c, '"' | '\\' | '$' | '`') {
            safe.push('\\');
        }
        safe.push(c);
    }
    format!("\"{safe}\"")
}

/// Argument of a shell in single quotes.
fn word_always(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Argument of a shell, in single quotes where it needs them.
fn word(text: &str) -> String {
    let is_plain =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte));
    if is_plain && !text.starts_with('-') { text.to_owned() } else { word_always(text) }
}

/// Raw text of Rust, with as many number signs as it needs.
fn raw(text: &str) -> String {
    let longest = text.split('"').skip(1).map(|rest| rest.bytes().take_while(|byte| *byte == b'#').count()).max();
    let signs = "#".repeat(longest.unwrap_or_default() + 1);
    format!("r{signs}\"{text}\"{signs}")
}

fn quoted(text: &str) -> String {
    Document::of(&text).text().to_owned()
}

/// JSON object of texts, which Python and TypeScript read alike.
fn object(pairs: &[(String, String)]) -> String {
    let members: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}: {}", quoted(name), quoted(value))).collect();
    format!("{{{}}}", members.join(", "))
}

/// JSON with the constants of Python.
fn python_value(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        let constants = [("true", "True"), ("false", "False"), ("null", "None")];
        let (taken, written) = if c == '"' {
            let string = &rest[..end_of_string(rest)];
            (string.len(), string)
        } else if let Some((json, python)) = constants.into_iter().find(|(json, _)| rest.starts_with(json)) {
            (json.len(), python)
        } else {
            (c.len_utf8(), &rest[..c.len_utf8()])
        };
        text.push_str(written);
        rest = &rest[taken..];
    }
    text
}

/// Length of the JSON string at the beginning of a text.
fn end_of_string(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 1;
    while end < bytes.len() && bytes[end] != b'"' {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    (end + 1).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> RequestParts {
        let body = r#"[{"payload": {"it's": null, "text": "true \"null\""}}]"#;
        RequestParts {
            method: "POST".to_owned(),
            path: "/api/v1/jobs/a/items".to_owned(),
            values: vec!["a".to_owned()],
            query: vec![("seal".to_owned(), "true".to_owned())],
            headers: vec![("Idempotency-Key".to_owned(), "a$b\"".to_owned())],
            body: Some(Document::parse(body.to_owned()).expect("JSON")),
        }
    }

    #[test]
    fn snippets_quote_what_they_send() {
        let whole = request();
        assert_eq!(
            whole.curl(),
            "curl -X POST \"$TREELINE_URL/api/v1/jobs/a/items?seal=true\" \\\n  -H \"Authorization: Bearer $TREELINE_TOKEN\" \\\n  \
             -H \"Idempotency-Key: a\\$b\\\"\" \\\n  -H \"Content-Type: application/json\" \\\n  \
             -d '[{\"payload\": {\"it'\\''s\": null, \"text\": \"true \\\"null\\\"\"}}]'"
        );
        let text = |request: &RequestParts, id| {
            let snippets = request.snippets("add_items");
            snippets.into_iter().find(|it| it.id == id).map(|it| it.text).expect("a snippet")
        };
        let python = text(&whole, "python");
        assert!(python.contains(r#"body=[{"payload": {"it's": None, "text": "true \"null\""}}]"#), "{python}");
        assert!(python.contains(r#"client.request("POST", "/jobs/a/items", params={"seal": "true"}"#), "{python}");
        let typescript = text(&whole, "typescript");
        assert!(typescript.contains(r#"client.request("POST", "/jobs/a/items", { params: {"seal": "true"}, body: [{"#));
        // Without a query and headers, the SDKs have a method for it.
        let plain = RequestParts { query: Vec::new(), headers: Vec::new(), ..request() };
        assert!(text(&plain, "python").contains(r#"client.add_items("a", [{"payload": {"it's": None"#));
        assert!(text(&plain, "typescript").contains(r#"await client.addItems("a", [{"payload""#));
        assert!(text(&plain, "rust").contains("from_str(r#\"[{\"payload\": {\"it's\": null"));
        let hostile = RequestParts { values: vec!["a'; $(x)\"".to_owned()], ..RequestParts::default() };
        let command = hostile.snippets("get_job").into_iter().find(|it| it.id == "cli").expect("a command");
        assert_eq!(command.text, r#"treeline job 'a'\''; $(x)"'"#);
        assert_eq!(raw("a\"##b\"#"), "r###\"a\"##b\"#\"###");
        assert_eq!(raw("##"), "r#\"##\"#");
        assert_eq!(raw("a\"#b"), "r##\"a\"#b\"##");
    }

    #[test]
    fn snippets_read_lists_row_by_row_and_name_the_fields_of_a_change() {
        let text = |operation: &str, id: &str, body: Option<&str>| {
            let values = vec!["a".to_owned()];
            let body = body.map(|body| Document::parse(body.to_owned()).expect("JSON"));
            let request = RequestParts { values, body, ..RequestParts::default() };
            request.snippets(operation).into_iter().find(|it| it.id == id).map(|it| it.text).unwrap_or_default()
        };
        assert!(text("list_schedule_runs", "python", None).contains("for one in client.schedule_runs(\"a\"):"));
        assert!(
            text("list_alert_channels", "typescript", None).contains("for await (const one of client.alertChannels(")
        );
        assert!(text("get_schedule", "python", None).contains("print(client.schedule(\"a\"))"));
        let change = Some(r#"{"ends_at": null}"#);
        assert!(text("patch_schedule", "python", change).contains(r#"patch_schedule("a", **{"ends_at": None})"#));
        assert!(text("patch_schedule", "typescript", change).contains(r#"patchSchedule("a", {"ends_at": null})"#));
        assert_eq!(text("patch_schedule", "cli", change), "treeline schedules edit a");
    }
}
