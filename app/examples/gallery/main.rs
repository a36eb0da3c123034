//! Renders every page in each of its states, with sample data, to HTML files:
//!
//! ```text
//! cargo run -p app --features ssr --example gallery -- DIRECTORY
//! ```
//!
//! The pages link to the style sheets in `style` beside them, and start no WASM.

mod accounts; // people, services, the log
mod callbacks; // who is told that a tree is complete
mod channels; // where alerts are sent
mod fixtures; // the data
mod job_views; // graph, timeline, results and activity of a job
mod lists; // saved views, jobs started by hand, search
mod readers; // uploaders, and readers of German
mod reference; // API reference and documentation
mod schedules; // jobs that start by themselves
mod staff; // the pages of those who look after the work
mod uploads; // files on their way
mod watching; // what goes on, and who works

use std::{fs, path::PathBuf};

use app::{
    document::html,
    frame::{Assets, Frame, Page, Person, Theme},
    pages::{
        self,
        import::{imports::Imports, new_import::ImportForm},
        job::Summary,
    },
};
use domain::{
    Code, Problem,
    id::Uuid,
    import::upload::{Upload, UploadFormat},
    item::StepCount,
};
use fixtures::{
    at, complete, failed, form, groups, hostile, hostile_groups, in_flight, million, partial, running, tree, waiting,
    waiting_reasons,
};

type Draw = Box<dyn FnOnce() -> Page>;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "target/gallery".to_owned()));
    fs::create_dir_all(&directory)?;
    for theme in [Theme::Light, Theme::Dark] {
        for (name, draw) in all() {
            let frame = readers::frame_of(name, frame(theme));
            fs::write(directory.join(format!("{name}-{}.html", theme.as_str())), html(&frame, draw))?;
        }
    }
    Ok(())
}

/// Frame around the pages of an admin who reads English.
fn frame(theme: Theme) -> Frame {
    Frame {
        nonce: "gallery".to_owned(),
        assets: Assets {
            page_script: "page.js".to_owned(),
            script: "none.js".to_owned(),
            wasm: "none.wasm".to_owned(),
            style: "style/main.css".to_owned(),
            imports_style: "style/imports.css".to_owned(),
            documentation_style: "style/documentation.css".to_owned(),
            font: "style/fonts/sans.woff2".to_owned(),
        },
        theme,
        speech: app::speech::Languages::english(),
        languages: app::speech::Languages::default().choices(),
        collapsed: false,
        environment: Some("Production".to_owned()),
        dead: Some(12_431),
        notices: Some(accounts::notices()),
        now: at("2026-11-20T14:03:07Z"),
        requested_at: at("2026-11-20T14:03:07Z"),
        offset_minutes: Some(60),
        person: Some(Person { name: "Ada Lovelace".to_owned(), staff: true, admin: true }),
        address: "/".to_owned(),
        refresh_seconds: None,
    }
}

fn uploads_of(jobs: Vec<domain::Job>) -> Imports {
    let (limit_bytes, xlsx_limit_bytes) = (2 << 30, 50 << 20);
    Imports { jobs, next: None, first: true, may_upload: true, limit_bytes, xlsx_limit_bytes, deleted: false }
}

fn all() -> Vec<(&'static str, Draw)> {
    let mut pages: Vec<(&'static str, Draw)> = Vec::new();
    let mut add = |name, draw: Draw| pages.push((name, draw));
    add("sign-in", Box::new(|| pages::identity::sign_in::page(&pages::identity::sign_in::SignIn::default())));
    add("sign-in-link", Box::new(|| pages::identity::sign_in::confirm("abc")));
    add("sign-in-used", Box::new(pages::identity::sign_in::refused));
    let ada = Person { name: "Ada Lovelace".to_owned(), staff: true, admin: true };
    add("menu", Box::new(move || pages::menu::page(&ada)));
    add("share", Box::new(|| pages::identity::share::page(&partial(), true, &groups())));
    add("search-empty", Box::new(|| pages::search::page(&pages::search::Search::default())));
    add("imports-empty", Box::new(|| pages::import::imports::page(&uploads_of(Vec::new()))));
    add(
        "imports",
        Box::new(|| {
            let jobs = vec![running(), partial(), waiting(), complete(), failed(), million(), hostile()];
            pages::import::imports::page(&Imports { next: Some("?after=x".to_owned()), ..uploads_of(jobs) })
        }),
    );
    add("new", Box::new(|| pages::import::new_import::page(&form(), None)));
    add(
        "new-refused",
        Box::new(|| {
            let problem = Problem::new(
                Code::BadHeader,
                "Column 3 has no name. Give it one, or untick that the first row names the columns.",
            );
            let upload = Upload {
                id: Uuid::from_u128(9),
                filename: "airports.csv".to_owned(),
                bytes: 210_436,
                sha256: String::new(),
                format: UploadFormat::Csv,
                created_at: at("2026-11-20T14:00:00Z"),
            };
            pages::import::new_import::page(&ImportForm { upload: Some(upload), ..form() }, Some(&problem))
        }),
    );
    add("import-running", Box::new(|| pages::import::progress::page(&running(), &groups()[..1], true)));
    add(
        "import-waiting",
        Box::new(|| {
            let context = pages::import::progress::ImportContext {
                waiting: waiting_reasons(),
                ..pages::import::progress::ImportContext::default()
            };
            pages::import::progress::page_with(&waiting(), &[], false, context)
        }),
    );
    add("import-partial", Box::new(|| pages::import::progress::page(&partial(), &groups(), true)));
    add("import-complete", Box::new(|| pages::import::progress::page(&complete(), &[], false)));
    add("import-failed", Box::new(|| pages::import::progress::page(&failed(), &groups()[..1], false)));
    add("import-hostile", Box::new(|| pages::import::progress::page(&hostile(), &hostile_groups(), true)));
    add(
        "job-tree",
        Box::new(|| {
            let summary = Summary {
                groups: groups(),
                in_flight: in_flight(),
                waiting: waiting_reasons(),
                history: Some(watching::history(1.0)),
                ..Summary::default()
            };
            staff::summary(&tree(), summary, &pages::job::Actions::default())
        }),
    );
    add(
        "job-running",
        Box::new(|| {
            let steps = [("charged", 118), ("sent", 10_000)].map(|(name, items)| StepCount {
                name: name.to_owned(),
                items,
                more: items == 10_000,
            });
            let (groups, in_flight) = (groups()[..1].to_vec(), in_flight());
            let summary = Summary { groups, in_flight, steps: steps.into(), ..Summary::default() };
            staff::summary(&running(), summary, &staff::own_actions())
        }),
    );
    add(
        "job-complete",
        Box::new(|| {
            let summary = Summary { callbacks: callbacks::deliveries()[..1].to_vec(), ..Summary::default() };
            staff::summary(&complete(), summary, &staff::own_actions())
        }),
    );
    job_views::all(&mut add);
    uploads::all(&mut add);
    staff::all(&mut add);
    watching::all(&mut add);
    callbacks::all(&mut add);
    schedules::all(&mut add);
    channels::all(&mut add);
    lists::all(&mut add);
    reference::all(&mut add);
    readers::all(&mut add);
    for (name, code) in [
        ("trouble-missing", Code::NotFound),
        ("trouble-removed", Code::JobRemoved),
        ("trouble-forbidden", Code::Forbidden),
        ("trouble-broken", Code::Internal),
        ("trouble-away", Code::DatabaseUnavailable),
    ] {
        add(
            name,
            Box::new(move || {
                let problem = Problem::new(code, "This page is for support staff.");
                pages::error_page::page(&Problem { request_id: Some("0199-a3f2-77".to_owned()), ..problem })
            }),
        );
    }
    pages.extend(accounts::all(&running(), partial(), groups()));
    pages
}
