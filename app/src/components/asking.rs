//! The filter of a list: one field in the filter language, its conditions as chips, what can be asked.
//!
//! A GET form and links, nothing else: the filter is the address, so a page can be sent to somebody. What
//! cannot be read is said under the field with its place, and nothing is listed then.

use domain::filter::{Fault, Filter, Term, Test, lists::List};
use leptos::prelude::*;

use super::state::icon;
use crate::address::address;

/// What was asked of a list.
#[derive(Clone, Debug)]
pub struct Asked {
    pub list: List,
    /// The page that answers.
    pub path: &'static str,
    /// As it stands in the field.
    pub typed: String,
    /// Empty where there is a fault.
    pub filter: Filter,
    pub fault: Option<Fault>,
}

impl Asked {
    /// Nothing: the whole list.
    pub fn nothing(list: List, path: &'static str) -> Self {
        Self { list, path, typed: String::new(), filter: Filter::default(), fault: None }
    }

    /// The page with another filter.
    pub fn link(&self, filter: &Filter) -> String {
        address(self.path, &[("q", &filter.to_string())])
    }

    /// Whether it speaks of jobs within trees, too. Else a list of jobs shows roots.
    pub fn is_within(&self) -> bool {
        let within = |term: &Term| matches!(term.name.as_deref(), Some("root" | "root_id" | "parent" | "id"));
        self.filter.terms.iter().any(within)
    }

    pub fn is_empty(&self) -> bool {
        self.typed.trim().is_empty()
    }
}

/// A condition as it is shown: of more than three ids only how many they are.
pub fn brief(term: &Term) -> String {
    match (&term.name, &term.test) {
        (Some(name), Test::Any(words)) if name == "id" && words.len() > 3 => format!("id: {} of them", words.len()),
        _ => term.to_string(),
    }
}

/// A filter that many people want: its word, and the condition; without one, everything.
pub type Shortcut = (&'static str, Option<Term>);

const METADATA: &str = "metadata.team:hr";

/// The form. `shortcuts` are links into the filter; `types` are offered as a choice.
pub fn bar(asked: &Asked, label: &'static str, shortcuts: &[Shortcut], types: &[String]) -> AnyView {
    let fault = asked.fault.as_ref().map(|fault| {
        view! {
            <p class="field-fault" id="filter-fault" role="alert">
                {icon("dead")}
                " "
                {fault.to_string()}
            </p>
        }
    });
    let bad = asked.fault.is_some();
    let clear = (!asked.is_empty()).then(|| view! { <a href=asked.path>"Clear"</a> });
    let choice = (!types.is_empty()).then(|| {
        let options =
            types.iter().map(|name| view! { <option value=name.clone()>{name.clone()}</option> }).collect_view();
        view! {
            <label class="field">
                <span>"Type"</span>
                <select name="type">
                    <option value="">"as written"</option>
                    {options}
                </select>
            </label>
        }
    });
    view! {
        <form class="filter" method="get" action=asked.path role="search" aria-label=label>
            <div class="field field-wide combo">
                <label for="filter">"Filter"</label>
                <input
                    type="search"
                    name="q"
                    id="filter"
                    class="mono"
                    value=asked.typed.clone()
                    maxlength="2000"
                    spellcheck="false"
                    autocomplete="off"
                    autocapitalize="none"
                    aria-describedby=if bad { "filter-fault" } else { "filter-help" }
                    aria-invalid=bad.then_some("true")
                    data-names=names(asked.list)
                />
            </div>
            {choice}
            <div class="filter-actions">
                <button type="submit">"Filter"</button>
                {clear}
            </div>
        </form>
        {fault}
        {links(asked, shortcuts)}
        {chips(asked)}
        {help(asked.list)}
    }
    .into_any()
}

/// What the list knows, for the script `filter.js`, as JSON.
fn names(list: List) -> String {
    #[derive(serde::Serialize)]
    struct Known {
        name: &'static str,
        example: &'static str,
        values: Vec<&'static str>,
    }
    let known = list.names().iter().map(|it| Known { name: it.name, example: it.example, values: it.values() });
    let metadata = Known { name: "metadata.", example: METADATA, values: Vec::new() };
    let all: Vec<Known> = known.chain((list == List::Jobs).then_some(metadata)).collect();
    serde_json::to_string(&all).unwrap_or_default()
}

fn links(asked: &Asked, shortcuts: &[Shortcut]) -> Option<AnyView> {
    if shortcuts.is_empty() {
        return None;
    }
    let names: Vec<String> = shortcuts.iter().filter_map(|(_, term)| term.as_ref()?.name.clone()).collect();
    let rest: Filter = asked
        .filter
        .terms
        .iter()
        .filter(|term| term.name.as_ref().is_none_or(|name| !names.contains(name)))
        .cloned()
        .collect::<Vec<_>>()
        .into();
    let links = shortcuts
        .iter()
        .map(|(word, term)| {
            let (there, here) = match term {
                Some(term) => (rest.with(term.clone()), asked.filter.has(term)),
                None => (rest.clone(), rest == asked.filter),
            };
            let current = (here && asked.fault.is_none()).then_some("true");
            view! {
                <li>
                    <a href=asked.link(&there) aria-current=current>
                        {*word}
                    </a>
                </li>
            }
        })
        .collect_view();
    Some(view! { <ul class="shortcuts">{links}</ul> }.into_any())
}

fn chips(asked: &Asked) -> Option<AnyView> {
    if asked.filter.is_empty() {
        return None;
    }
    let chips = asked
        .filter
        .terms
        .iter()
        .enumerate()
        .map(|(at, term)| {
            view! {
                <li>
                    <a class="chip" href=asked.link(&asked.filter.without(at))>
                        <span class="quiet-status">"Take out "</span>
                        <span class="mono">{brief(term)}</span>
                        {icon("dead")}
                    </a>
                </li>
            }
        })
        .collect_view();
    Some(view! { <ul class="chips" aria-label="Conditions">{chips}</ul> }.into_any())
}

fn help(list: List) -> AnyView {
    let examples =
        list.names().iter().map(|name| view! { <li><code class="mono">{name.example}</code></li> }).collect_view();
    let metadata = (list == List::Jobs).then(|| view! { <li><code class="mono">{METADATA}</code></li> });
    view! {
        <details class="help" id="filter-help">
            <summary>"What can be asked"</summary>
            <p class="sub">
                "Conditions with spaces between them: all must hold. Text without a colon is searched for; quotation marks keep words together."
            </p>
            <ul class="examples">{examples} {metadata}</ul>
        </details>
    }
    .into_any()
}
