//! The shapes of all icons and the patterns of the bars, once per document. Drawn inline: a document
//! needs no second request for them, and patterns can be named only within their own document.

/// Goes first into the body.
pub const SPRITE: &str = include_str!("sprite.svg");
