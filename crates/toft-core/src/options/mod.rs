//! L0: the options, as one table that the parser, the defaults and the documentation share.
//!
//! | file | contents |
//! |---|---|
//! | `table.rs` | the rows |
//! | `values.rs` | what their words mean |
//! | `in_force.rs` | the values that are used |
//! | `parse.rs` | reading a variable |
//! | `nearest.rs` | the option that a misspelt name was meant for |
//! | `library_functions.rs` | the functions that `rust`, `c++` and `c` stand for |

mod in_force;
mod library_functions;
mod nearest;
mod parse;
mod table;
#[cfg(test)]
mod tests;
mod values;

pub use in_force::Options;
pub use library_functions::{CXX_PROGRAMS, of_c, of_libc};
pub use nearest::nearest;
pub use parse::{
    FileName, Names, Parsed, Problem, parse_file, parse_flag, parse_guarded, parse_list,
    parse_moments, parse_names, parse_number, parse_partitions, parse_report, parse_share,
    parse_size, parse_word,
};
pub use table::{
    COLD_MAX, DANGLING_MAX, DECAY_MAX, Entry, GUARDED_MAX, PARTITIONS_EXACT, PARTITIONS_MAX,
    PARTITIONS_USUAL, SIGNAL_MAX, TABLE, VERIFY_MAX,
};
pub use values::{Fill, Huge, Leaks, LimitTo, Reclaim, Report, SiteMode};
