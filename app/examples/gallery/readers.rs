//! Pages for other readers than an admin who reads English: uploaders, readers of German, and those without an account.

use app::{
    frame::{Frame, Person},
    pages::{
        self,
        identity::share::{self, SharePanel},
        import::{new_import::ImportForm, progress::ImportContext},
    },
    speech::Languages,
};
use domain::import::upload::Upload;

use crate::{
    Draw,
    fixtures::{complete, failed, form, groups, million, partial, running},
    uploads::{checked, matched, mine, reviewed},
    uploads_of,
};

/// Beginnings of the names of pages for readers without an account.
const PUBLIC: [&str; 3] = ["sign", "trouble", "share"];

/// Frame of the page with this name.
pub(crate) fn frame_of(name: &str, frame: Frame) -> Frame {
    if PUBLIC.iter().any(|public| name.starts_with(public)) {
        return with_language(name, Frame { person: None, notices: None, ..frame });
    }
    if name.starts_with("uploader-") {
        let person = Person { name: "Ben Ortiz".to_owned(), staff: false, admin: false };
        return with_language(name, Frame { person: Some(person), environment: None, dead: None, ..frame });
    }
    with_language(name, frame)
}

fn with_language(name: &str, frame: Frame) -> Frame {
    if name.ends_with("-german") {
        return Frame { speech: Languages::default().speech(Some("de"), Some("de-DE")), ..frame };
    }
    frame
}

pub(crate) fn all(add: &mut impl FnMut(&'static str, Draw)) {
    for name in ["uploader-import", "uploader-import-german"] {
        add(
            name,
            Box::new(|| {
                let panel = share::panel(&running(), &SharePanel::default());
                let context = ImportContext { panel: Some(panel), ..mine() };
                pages::import::progress::page_with(&running(), &groups()[..1], false, context)
            }),
        );
    }
    for name in ["uploader-done", "uploader-done-german"] {
        add(name, Box::new(|| pages::import::progress::page_with(&partial(), &groups(), false, mine())));
    }
    for name in ["uploader-imports", "uploader-imports-german"] {
        add(
            name,
            Box::new(|| {
                let jobs = vec![running(), partial(), complete(), failed(), million()];
                pages::import::imports::page(&uploads_of(jobs))
            }),
        );
    }
    add("uploader-new-german", Box::new(|| pages::import::new_import::page(&form(), None)));
    add("uploader-match-german", Box::new(|| pages::import::new_import::page(&matched(), None)));
    for name in ["uploader-review", "uploader-review-german"] {
        add(name, Box::new(|| pages::import::new_import::page(&reviewed(), None)));
    }
    add("share-german", Box::new(|| share::page(&partial(), true, &groups())));
    add("sign-in-german", Box::new(|| pages::identity::sign_in::page(&pages::identity::sign_in::SignIn::default())));
    add(
        "uploader-files",
        Box::new(|| {
            let first = checked().upload.expect("an upload");
            let second =
                Upload { filename: "airports-<b>north</b>.csv".to_owned(), bytes: 84_000_000, ..first.clone() };
            let refused = vec![("photo.png".to_owned(), "This kind of file cannot be read.".to_owned())];
            let several = ImportForm { uploads: vec![first, second], refused_files: refused, ..form() };
            pages::import::new_import::page(&several, None)
        }),
    );
}
