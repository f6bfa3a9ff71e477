//! What plots are made of, for programs that draw their own.

pub use crate::report::place::text_width;
pub use crate::report::scale::{Scale, label, number};

/// The style sheet of every plot: colours `c0` to `c8`, lines and text.
pub const STYLE: &str = include_str!("report/plot.css");
