//! Shapes of all icons and patterns of the bars, once per document. They are inline: this needs no second
//! request, and patterns can be referenced only within their own document.

/// Goes first into the body.
pub const SPRITE: &str = include_str!("sprite.svg");
