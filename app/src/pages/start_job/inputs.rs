//! Inputs of a payload: one for each property that its schema names.

use domain::Problem;
use leptos::prelude::*;

use super::TypedItem;
use crate::components::{action_form::field_fault, text_area::plain_text_area, text_area::text_area};

/// Kind of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// One line of text.
    Line,
    /// Text of several lines.
    Prose,
    /// E-mail address or URL: a line without white space around it.
    Email,
    Url,
    Number,
    /// Whole number.
    Integer,
    /// Box that is checked for true.
    Boolean,
    /// One of `choices`.
    Choice,
    Date,
    /// Texts, one on each line.
    Lines,
    /// Any JSON.
    Json,
}

/// Property of a payload, as an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadField {
    pub name: String,
    pub label: String,
    pub help: Option<String>,
    pub kind: InputKind,
    pub required: bool,
    /// Left empty, it is null; otherwise it is left out.
    pub empty_is_null: bool,
    /// JSON and label of each choice.
    pub choices: Vec<(String, String)>,
    /// Text at the beginning.
    pub initial: String,
}

/// Attributes that all inputs have.
struct Attributes {
    id: String,
    name: String,
    value: Option<String>,
    described: Option<String>,
    bad: bool,
}

impl PayloadField {
    /// The input with its label, hint and fault. `item_at` and `at`: places of the item and of the field.
    pub(super) fn view(&self, item_at: usize, at: usize, item: &TypedItem, problem: Option<&Problem>) -> AnyView {
        let id = format!("item-{item_at}-{at}");
        let (help_id, fault_id) = (format!("{id}-help"), format!("{id}-fault"));
        let member = self.name.replace('~', "~0").replace('/', "~1");
        let fault = field_fault(problem, &format!("/items/{item_at}/payload/{member}"), &fault_id);
        let described = [self.help.is_some().then_some(help_id.as_str()), fault.is_some().then_some(fault_id.as_str())];
        let described: Vec<&str> = described.into_iter().flatten().collect();
        let attributes = Attributes {
            id: id.clone(),
            name: format!("item.{item_at}.{}", self.name),
            value: item.values.get(&self.name).cloned(),
            described: (!described.is_empty()).then(|| described.join(" ")),
            bad: fault.is_some(),
        };
        let help = self.help.clone().map(|help| view! { <span class="help" id=help_id>{help}</span> });
        if self.kind == InputKind::Boolean {
            return view! { <div class="field">{self.tick(attributes)} {help} {fault}</div> }.into_any();
        }
        let optional = (!self.required).then(|| view! { " " <em>"optional"</em> });
        let is_wide = matches!(self.kind, InputKind::Prose | InputKind::Lines | InputKind::Json);
        view! {
            <div class=if is_wide { "field field-wide" } else { "field" }>
                <label class="label" for=id>
                    {self.label.clone()}
                    {optional}
                </label>
                {self.control(attributes)}
                {help}
                {fault}
            </div>
        }
        .into_any()
    }

    fn tick(&self, attributes: Attributes) -> AnyView {
        let Attributes { id, name, value, described, bad } = attributes;
        view! {
            <label class="check">
                <input
                    type="checkbox"
                    id=id
                    name=name
                    value="yes"
                    checked=value.is_some()
                    aria-invalid=bad.then_some("true")
                    aria-describedby=described
                />
                <span>{self.label.clone()}</span>
            </label>
        }
        .into_any()
    }

    fn control(&self, attributes: Attributes) -> AnyView {
        let Attributes { id, name, value, described, bad } = attributes;
        let (value, required, invalid) = (value.unwrap_or_default(), self.required, bad.then_some("true"));
        match self.kind {
            InputKind::Choice => {
                let options = self
                    .choices
                    .iter()
                    .map(|(json, word)| {
                        view! {
                            <option value=json.clone() selected=*json == value>
                                {word.clone()}
                            </option>
                        }
                    })
                    .collect_view();
                let nothing = if required { "Choose…" } else { "Not set" };
                view! {
                    <select id=id name=name required=required aria-invalid=invalid aria-describedby=described>
                        <option value="">{nothing}</option>
                        {options}
                    </select>
                }
                .into_any()
            }
            InputKind::Prose | InputKind::Lines => plain_text_area(&id, name, &value, described, required, bad),
            InputKind::Json => text_area(&id, name, &value, described.as_deref().unwrap_or_default(), bad),
            _ => {
                let input_mode = match self.kind {
                    InputKind::Number => Some("decimal"),
                    InputKind::Integer => Some("numeric"),
                    InputKind::Email => Some("email"),
                    InputKind::Url => Some("url"),
                    _ => None,
                };
                // A control for dates drops what is none.
                let is_date = self.kind == InputKind::Date && (value.is_empty() || is_date(&value));
                view! {
                    <input
                        type=if is_date { "date" } else { "text" }
                        id=id
                        name=name
                        value=value
                        required=required
                        inputmode=input_mode
                        autocomplete="off"
                        aria-invalid=invalid
                        aria-describedby=described
                    />
                }
                .into_any()
            }
        }
    }
}

/// Returns true for texts such as 2026-12-31.
fn is_date(text: &str) -> bool {
    let form = |(place, c): (usize, char)| if matches!(place, 4 | 7) { c == '-' } else { c.is_ascii_digit() };
    text.len() == 10 && text.chars().enumerate().all(form)
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use super::*;

    fn rendered(kind: InputKind, value: &str) -> String {
        let field = PayloadField {
            name: "due".to_owned(),
            label: "<b>Due".to_owned(),
            help: Some("When <i>.".to_owned()),
            kind,
            required: true,
            empty_is_null: false,
            choices: vec![("1".to_owned(), "one".to_owned())],
            initial: String::new(),
        };
        let item = TypedItem { values: [("due".to_owned(), value.to_owned())].into(), json: String::new() };
        Owner::new().with(|| field.view(0, 2, &item, None).to_html())
    }

    #[test]
    fn text_that_is_no_date_stays_in_the_page() {
        assert!(rendered(InputKind::Date, "2026-12-31").contains("type=\"date\""));
        let other = rendered(InputKind::Date, "31.12.2026");
        assert!(other.contains("type=\"text\"") && other.contains("value=\"31.12.2026\""), "{other}");
        assert!(!other.contains("<b>") && !other.contains("<i>"), "{other}");
    }

    #[test]
    fn choice_is_selected_by_its_json() {
        assert!(rendered(InputKind::Choice, "1").contains("selected"));
        assert!(!rendered(InputKind::Choice, "one").contains("selected"));
    }
}
