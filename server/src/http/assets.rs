//! Files of the site (script, WASM, styles, fonts), served from inside the binary.
//!
//! Every URL contains the hash of the whole site, so browsers cache a file forever and a new build has a new set of
//! URLs. While servers are upgraded one by one, a page of one version asks a server of another for its files: styles,
//! fonts, and the page script fit both, and are served uncached. The module and its glue fit only the pages that were
//! compiled with them, so they are 404 under another hash, and the page says that it is not live. Debug builds read
//! `site/` from disk. Pages are served elsewhere: an unknown name here is a real 404, never a page.

use std::borrow::Cow;

use axum::{
    Router,
    extract::Path,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
    routing::get,
};
use domain::Code;
use rust_embed::Embed;

use crate::http::error::{Error, Result};

/// Output of `cargo xtask build`: every file plain, as `.br` and as `.gz`, and `hash`, the hash of all files.
#[derive(Embed)]
#[folder = "../site"]
#[allow_missing = true]
struct Site;

/// Route `GET /pkg/{hash}/{path}`.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/pkg/{hash}/{*path}", get(asset))
}

/// URL of a site file: `url("treeline.js")` is `/pkg/<hash>/treeline.js`.
pub fn url(name: &str) -> String {
    format!("/pkg/{}/{name}", hash())
}

/// Returns true if the site was built; without it pages still work, unstyled.
pub fn is_built() -> bool {
    Site::get("hash").is_some()
}

fn hash() -> String {
    Site::get("hash").and_then(|file| String::from_utf8(file.data.into()).ok()).unwrap_or_else(|| "unbuilt".into())
}

async fn asset(Path((requested_hash, path)): Path<(String, String)>, headers: HeaderMap) -> Result<Response> {
    let missing = || Error::refuse(Code::NotFound, "The site has no such file.");
    // Files without a known media type are not served: the compressed forms are not files of their own.
    let media_type = media_type(&path).ok_or_else(missing)?;
    let is_own = requested_hash == hash();
    let plain = if is_own || fits_pages_of_other_versions(&path) { Site::get(&path) } else { None };
    let plain = plain.ok_or_else(missing)?;
    let caching = if is_own { "public, max-age=31536000, immutable" } else { "no-store" };
    let (encoding, data) = best_encoding(&path, plain.data, &headers);

    let mut response = data.into_response();
    let answer = response.headers_mut();
    answer.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    answer.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    answer.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(encoding) = encoding {
        answer.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    Ok(response)
}

fn fits_pages_of_other_versions(path: &str) -> bool {
    path == "page.js" || path.rsplit_once('.').is_some_and(|(_, ending)| ["css", "woff2"].contains(&ending))
}

/// Picks the smallest encoding that the client accepts.
fn best_encoding(
    path: &str,
    plain: Cow<'static, [u8]>,
    headers: &HeaderMap,
) -> (Option<&'static str>, Cow<'static, [u8]>) {
    for (encoding, suffix) in [("br", "br"), ("gzip", "gz")] {
        if accepts(headers, encoding)
            && let Some(packed) = Site::get(&format!("{path}.{suffix}"))
        {
            return (Some(encoding), packed.data);
        }
    }
    (None, plain)
}

/// Returns true if `Accept-Encoding` names the encoding with a weight other than zero.
fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    let offers = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    offers.flat_map(|value| value.split(',')).any(|offer| {
        let mut parts = offer.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(encoding));
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse::<f32>);
        named && weight.is_ok_and(|weight| weight > 0.0)
    })
}

/// Media type of a site file by its extension. `nosniff` and `.wasm` streaming need the exact type.
fn media_type(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "js" => "text/javascript; charset=utf-8",
        "wasm" => "application/wasm",
        "css" => "text/css; charset=utf-8",
        "woff2" => "font/woff2",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "csv" => "text/csv; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taking(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))])
    }

    #[test]
    fn an_encoding_is_taken_unless_its_weight_is_zero() {
        assert!(accepts(&taking("gzip, deflate, br"), "br"));
        assert!(accepts(&taking("gzip;q=0.5,BR ; q=0.1"), "br"));
        assert!(!accepts(&taking("gzip, br;q=0"), "br"));
        assert!(!accepts(&taking("brotli"), "br"));
        assert!(!accepts(&HeaderMap::new(), "gzip"));
    }

    #[tokio::test]
    async fn under_another_hash_there_is_nothing_to_run_with_another_module() {
        for name in ["treeline.js", "treeline_bg.wasm"] {
            let path = Path(("0".repeat(16), name.to_owned()));
            let refused = asset(path, HeaderMap::new()).await.err().map(Error::into_problem);
            assert_eq!(refused.map(|problem| problem.code), Some(Code::NotFound), "{name}");
        }
    }
}
