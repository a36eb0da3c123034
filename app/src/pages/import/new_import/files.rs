//! Several files that were uploaded at once, each with a link to the review of its rows.

use domain::import::upload::Upload;
use leptos::prelude::*;

use crate::{components::state::icon, speech::in_words, t, upload::size};

/// The list. `refused`: name of a file, and reason.
pub(super) fn section(uploads: &[Upload], refused: &[(String, String)]) -> AnyView {
    let stored = uploads
        .iter()
        .map(|upload| {
            let (name, label) = (upload.filename.clone(), t!("live-upload-review-file", name = &upload.filename));
            view! {
                <li class="file-card">
                    <span class="file-icon">{icon("file-text")}</span>
                    <span class="two grow">
                        <strong class="clip">{name}</strong>
                        <span>{t!("import-uploaded", size = &size(upload.bytes))}</span>
                    </span>
                    <a class="btn btn-sm" href=format!("/imports/new?upload_id={}", upload.id) aria-label=label>
                        {t!("live-upload-review")}
                    </a>
                </li>
            }
        })
        .collect_view();
    let refused = refused
        .iter()
        .map(|(name, reason)| {
            view! {
                <li class="file-card">
                    <span class="file-icon">{icon("dead")}</span>
                    <span class="two grow">
                        <strong class="clip">{name.clone()}</strong>
                        <span>{t!("files-refused")} " " {in_words(reason)}</span>
                    </span>
                </li>
            }
        })
        .collect_view();
    view! {
        <p class="soft">{t!("files-text")}</p>
        <ul class="card lined" id="files">
            {stored} {refused}
        </ul>
        <p>
            <a class="btn" href="/imports/new">
                {icon("upload")}
                {t!("files-more")}
            </a>
        </p>
    }
    .into_any()
}
