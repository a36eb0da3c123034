//! Fields of forms: a label, an input, a hint, and the error of the last submission.
//!
//! A refusal is a problem document; its errors are shown at the fields they point to. A password is never
//! written back into a page.

use domain::Problem;
use leptos::prelude::*;

/// An input with its label.
#[derive(Clone, Debug, Default)]
#[must_use = "a field is drawn by its view"]
pub struct Field {
    pub label: &'static str,
    /// Its name in the form, and its id on the page.
    pub name: &'static str,
    /// `text`, `email`, `password` …
    pub kind: &'static str,
    pub value: String,
    pub hint: Option<&'static str>,
    pub fault: Option<String>,
    pub autocomplete: &'static str,
    pub required: bool,
    pub maxlength: u16,
}

impl Field {
    /// A field that must be filled in.
    pub fn new(label: &'static str, name: &'static str, kind: &'static str) -> Self {
        Self { label, name, kind, required: true, autocomplete: "off", maxlength: 300, ..Self::default() }
    }

    pub fn optional(self) -> Self {
        Self { required: false, ..self }
    }

    pub fn value(self, value: &str) -> Self {
        Self { value: value.to_owned(), ..self }
    }

    pub fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    pub fn autocomplete(self, autocomplete: &'static str) -> Self {
        Self { autocomplete, ..self }
    }

    pub fn maxlength(self, maxlength: u16) -> Self {
        Self { maxlength, ..self }
    }

    /// Adds the error of a refusal for the field at this pointer.
    pub fn judged(self, problem: Option<&Problem>, pointer: &str) -> Self {
        Self { fault: fault(problem, pointer), ..self }
    }

    pub fn view(self) -> AnyView {
        let (hint_id, fault_id) = (format!("{}-hint", self.name), format!("{}-fault", self.name));
        let mut described = Vec::new();
        if self.hint.is_some() {
            described.push(hint_id.clone());
        }
        if self.fault.is_some() {
            described.push(fault_id.clone());
        }
        let described = (!described.is_empty()).then(|| described.join(" "));
        let value = if self.kind == "password" { String::new() } else { self.value };
        view! {
            <div class="field">
                <label class="label" for=self.name>{self.label}</label>
                <input
                    type=self.kind
                    id=self.name
                    name=self.name
                    value=value
                    required=self.required
                    autocomplete=self.autocomplete
                    maxlength=self.maxlength.to_string()
                    aria-invalid=self.fault.is_some().then_some("true")
                    aria-describedby=described
                />
                {self.hint.map(|hint| view! { <span class="help" id=hint_id>{hint}</span> })}
                {self.fault.map(|fault| view! { <span class="field-error" id=fault_id>{fault}</span> })}
            </div>
        }
        .into_any()
    }
}

/// Sentence of a problem about the field at a pointer.
pub fn fault(problem: Option<&Problem>, pointer: &str) -> Option<String> {
    let detail = &problem?.errors.iter().find(|fault| fault.pointer == pointer)?.detail;
    let mut letters = detail.trim_end_matches('.').chars();
    letters.next().map(|first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Detail of a problem as a form shows it: the first field that is refused is named in words instead of by its JSON
/// Pointer. Deeper pointers lead into a document, where readers look for them, and stay.
pub fn detail(problem: &Problem) -> String {
    in_field_words(problem).unwrap_or_else(|| problem.detail.clone())
}

fn in_field_words(problem: &Problem) -> Option<String> {
    let pointer = &problem.errors.first()?.pointer;
    let expected = problem.detail.strip_prefix("At ")?.strip_prefix(pointer.as_str())?.strip_prefix(": ")?;
    let field = pointer.strip_prefix('/').filter(|field| !field.contains('/'))?.replace('_', " ").replace("url", "URL");
    let mut letters = field.chars();
    letters.next().map(|first| format!("{}{}: {expected}", first.to_uppercase(), letters.as_str()))
}

/// A choice among words.
pub fn choice(label: &'static str, name: &'static str, words: &[(&str, &str)], chosen: &str) -> AnyView {
    let options = words
        .iter()
        .map(|(value, word)| {
            view! {
                <option value=(*value).to_owned() selected=*value == chosen>
                    {(*word).to_owned()}
                </option>
            }
        })
        .collect_view();
    view! {
        <label class="field">
            <span class="label">{label}</span>
            <select name=name>{options}</select>
        </label>
    }
    .into_any()
}

/// Form with nothing but a button.
pub fn press(action: String, word: &'static str, label: Option<String>) -> AnyView {
    view! {
        <form method="post" action=action>
            <button class="btn btn-sm" type="submit" aria-label=label>
                {word}
            </button>
        </form>
    }
    .into_any()
}

/// Button for what cannot be undone: it opens its effect in words, and the button that does it.
pub fn press_confirmed(action: String, word: &'static str, label: Option<String>, effect: &'static str) -> AnyView {
    view! {
        <details class="rename">
            <summary class="btn btn-sm" aria-label=label.as_ref().map(|label| format!("{label}…"))>
                {format!("{word}…")}
            </summary>
            <form method="post" action=action class="inline">
                <span class="small soft">{effect}</span>
                <button class="btn btn-sm btn-danger" type="submit" aria-label=label>
                    {word}
                </button>
            </form>
        </details>
    }
    .into_any()
}

/// Secret that is shown once, with a copy button.
pub fn secret(id: &'static str, label: &'static str, value: &str) -> AnyView {
    view! {
        <div class="secret">
            <label class="field field-wide" for=id>
                <span>{label}</span>
            </label>
            <div class="secret-line">
                <input type="text" class="mono" id=id value=value.to_owned() readonly=true spellcheck="false" />
                <button class="btn" type="button" data-copy=id hidden=true>
                    {crate::t!("script-copy")}
                </button>
            </div>
        </div>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_fields_are_named_in_words() {
        let of = |pointer: &str, expected: &str| Problem::invalid_body([(pointer.to_owned(), expected.to_owned())]);
        assert_eq!(detail(&of("/min_count", "expected 1 to 9")), "Min count: expected 1 to 9.");
        assert_eq!(detail(&of("/webhook_url", "expected a host")), "Webhook URL: expected a host.");
        assert_eq!(detail(&of("/payload/amount", "expected a number")), "At /payload/amount: expected a number.");
        assert_eq!(detail(&of("", "expected an object")), "At the body: expected an object.");
        let problem = of("/url", "The address is not public.");
        assert_eq!(fault(Some(&problem), "/url").as_deref(), Some("The address is not public."));
    }
}
