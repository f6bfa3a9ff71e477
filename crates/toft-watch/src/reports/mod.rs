//! What a report says beside its first line: the caller, the block, and where it was allocated and
//! freed.

mod details;
mod file;
mod frames;

pub use details::details;
pub use file::open_report_file;
pub use frames::{
    frame_json, frame_line, place_json, place_json_by, place_text, stack_json, stack_lines,
};
