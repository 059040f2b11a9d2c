//! The stylesheet.

/// The content of the only `<style>` on every page. It loads nothing.
pub const STYLE: &str = include_str!("style.css");
