//! Lists under a name, jobs started by hand, and search.

use app::{
    components::{filter_bar::ListFilter, saved_views::ListViews},
    frame::Page,
    pages::{
        search::{self, Search},
        start_job::{self, InputKind, PayloadField, StartForm, TypedItem},
        views::{self, Typed, Views},
    },
};
use domain::{
    Problem,
    api::{SearchGroup, SearchHit, SearchKind, SearchResults},
    id::Uuid,
    job::{Owner, OwnerKind},
    saved_view::{SavedView, ViewList},
};

use crate::{Draw, fixtures::at};

pub(crate) fn all(add: &mut impl FnMut(&'static str, Draw)) {
    add("views", Box::new(|| views::page(&Views { flash: Some("view-saved".to_owned()), ..shown() })));
    add("views-empty", Box::new(|| views::page(&Views::default())));
    add(
        "views-refused",
        Box::new(|| {
            let fault = ("/q".to_owned(), "expected a filter such as status, found \"colour\"".to_owned());
            let refused = Typed {
                name: "Payroll".to_owned(),
                q: "colour:red".to_owned(),
                problem: Some(Problem::invalid_body([fault])),
                ..Typed::default()
            };
            views::page(&Views { open: Some(Uuid::from_u128(1)), refused: Some(refused), ..shown() })
        }),
    );
    add("start-job", Box::new(|| start_job::page(&filled())));
    add(
        "start-job-choose",
        Box::new(|| start_job::page(&StartForm { job_types: job_types(), ..StartForm::default() })),
    );
    add(
        "start-job-json",
        Box::new(|| {
            let json = "{\n  \"invoice\": 4711,\n  \"carrier\": \"post\"\n}".to_owned();
            let item = TypedItem { json, ..TypedItem::default() };
            start_job::page(&StartForm { as_json: true, items: vec![item.clone(), item], paused: true, ..filled() })
        }),
    );
    add(
        "start-job-refused",
        Box::new(|| {
            let problem = Problem::invalid_body([
                ("/items/0/payload/weight".to_owned(), "expected a number, found \"heavy\"".to_owned()),
                ("/priority".to_owned(), "expected a whole number from -100 to 100".to_owned()),
            ]);
            let mut form = StartForm { priority: "1000".to_owned(), problem: Some(problem), ..filled() };
            form.items[0].values.insert("weight".to_owned(), "heavy".to_owned());
            start_job::page(&form)
        }),
    );
    add("search", Box::new(found));
    add(
        "search-nothing",
        Box::new(|| {
            let results = SearchResults { q: "4712".to_owned(), groups: Vec::new() };
            search::page(&Search { q: "4712".to_owned(), results: Some(results), fault: None })
        }),
    );
}

fn view(n: u128, list: ViewList, name: &str, q: &str, owner: &str) -> SavedView {
    SavedView {
        id: Uuid::from_u128(n),
        list,
        name: name.to_owned(),
        q: q.to_owned(),
        sort: (n == 2).then(|| "created_at".to_owned()),
        shared: owner != "Ada Lovelace" || n == 2,
        is_default: n == 1,
        owner: Owner { kind: OwnerKind::User, name: owner.to_owned() },
        created_at: at("2026-11-01T08:00:00Z"),
        updated_at: at("2026-11-12T08:00:00Z"),
    }
}

/// Views of all lists, own ones and those of others.
fn shown() -> Views {
    let ada = "Ada Lovelace";
    Views {
        own: vec![
            view(1, ViewList::Jobs, "Payroll in progress", "type:calculate-payroll status:running", ada),
            view(2, ViewList::Failures, "Refused by the bank", "type:send-check \"insufficient funds\"", ada),
            view(3, ViewList::Items, "<script>alert(1)</script> and a name that goes on and on and on", "", ada),
        ],
        shared: vec![view(4, ViewList::Jobs, "Stalled", "stalled:yes", "Grace Hopper")],
        may_share: true,
        admin: true,
        flash: None,
        open: None,
        refused: None,
        refused_deletion: false,
    }
}

/// A filter of the jobs with its menu of views.
pub(crate) fn with_views(list_filter: ListFilter) -> ListFilter {
    let Views { own, shared, .. } = shown();
    let of_jobs = |views: Vec<SavedView>| views.into_iter().filter(|view| view.list == ViewList::Jobs).collect();
    let views = ListViews { own: of_jobs(own), shared: of_jobs(shared), may_share: true };
    ListFilter { views: Some(views), ..list_filter }
}

fn job_types() -> Vec<String> {
    ["export", "invoice-shipments", "send-check"].map(str::to_owned).to_vec()
}

/// Form with a field of most kinds.
fn filled() -> StartForm {
    let field = |name: &str, label: &str, kind, required| PayloadField {
        name: name.to_owned(),
        label: label.to_owned(),
        help: None,
        kind,
        required,
        empty_is_null: false,
        choices: Vec::new(),
        initial: String::new(),
    };
    let carriers = [("\"post\"", "post"), ("\"courier\"", "courier")];
    let carriers = carriers.map(|(json, word)| (json.to_owned(), word.to_owned())).to_vec();
    let text = "On the slip, below the address.".to_owned();
    let fields = vec![
        field("invoice", "Invoice", InputKind::Integer, true),
        PayloadField { choices: carriers, ..field("carrier", "Carrier", InputKind::Choice, true) },
        field("weight", "Weight", InputKind::Number, false),
        field("ship_on", "Ship on", InputKind::Date, false),
        field("insured", "Insured", InputKind::Boolean, false),
        PayloadField { help: Some(text), ..field("note", "Note", InputKind::Prose, false) },
    ];
    let values = [("invoice", "4711"), ("carrier", "\"post\""), ("weight", "12.50"), ("ship_on", "2026-12-01")];
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    StartForm {
        job_types: job_types(),
        job_type: "invoice-shipments".to_owned(),
        fields,
        items: vec![TypedItem { values, json: String::new() }],
        key: "k".to_owned(),
        ..StartForm::default()
    }
}

fn found() -> Page {
    let hit = |title: &str, matched: &str, detail: &str, path: &str| SearchHit {
        id: "4711".to_owned(),
        title: title.to_owned(),
        matched: matched.to_owned(),
        detail: Some(detail.to_owned()),
        path: path.to_owned(),
    };
    let groups = vec![
        SearchGroup {
            kind: SearchKind::Jobs,
            hits: vec![
                hit("Payroll, March", "name", "calculate-payroll, running", "/jobs/20"),
                hit("payroll-corrections.csv", "name", "import, completed", "/jobs/3"),
            ],
        },
        SearchGroup {
            kind: SearchKind::Errors,
            hits: vec![hit("<b>payroll</b> account 4711 is closed", "message", "send-check, 41 items", "/dead")],
        },
        SearchGroup { kind: SearchKind::Workers, hits: vec![hit("payroll-7f3a", "id", "billing", "/workers")] },
    ];
    let results = SearchResults { q: "payroll".to_owned(), groups };
    search::page(&Search { q: "payroll".to_owned(), results: Some(results), fault: None })
}
