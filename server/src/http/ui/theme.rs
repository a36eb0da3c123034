//! Theme and sidebar preferences of the reader: cookies, set by forms on every page.

use app::frame::Theme;
use axum::{
    http::header,
    response::{IntoResponse as _, Response},
};

use super::{form::Fields, see_other};

pub(super) const COOKIE: &str = "treeline_theme";

/// `POST /theme`. Redirects back to the page of the form.
pub(super) async fn choose(fields: Fields) -> Response {
    let theme = Theme::parse(fields.text("theme")).unwrap_or_default();
    let cookie = format!("{COOKIE}={}; Path=/; SameSite=Lax; Max-Age=31536000", theme.as_str());
    ([(header::SET_COOKIE, cookie)], see_other(local_path(fields.text("back")))).into_response()
}

/// Name and value of the cookie for a collapsed sidebar.
pub(super) const SIDEBAR: (&str, &str) = ("treeline_sidebar", "collapsed");

/// `POST /sidebar`. Redirects back to the page of the form.
pub(super) async fn fold(fields: Fields) -> Response {
    let (name, collapsed) = SIDEBAR;
    let value = if fields.text("sidebar") == collapsed { collapsed } else { "open" };
    let cookie = format!("{name}={value}; Path=/; SameSite=Lax; Max-Age=31536000");
    ([(header::SET_COOKIE, cookie)], see_other(local_path(fields.text("back")))).into_response()
}

/// Path on this site: never a URL of another site, even if the form contains one.
pub(super) fn local_path(back: &str) -> &str {
    let is_local =
        back.starts_with('/') && !back.starts_with("//") && back.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    if is_local { back } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::local_path;

    #[test]
    fn the_way_back_stays_here() {
        assert_eq!(local_path("/jobs?q=a+b"), "/jobs?q=a+b");
        for elsewhere in ["//evil.example", "https://evil.example", "/\\evil.example", "", "/a\nb"] {
            assert_eq!(local_path(elsewhere), "/");
        }
    }
}
