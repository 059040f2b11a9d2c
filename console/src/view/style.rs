//! The style.

/// The style of every page: what stands in its one `<style>`. It loads nothing.
pub const STYLE: &str = include_str!("style.css");
