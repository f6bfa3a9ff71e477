//! The command as its users run it. One program, so that tests of all files run side by side: most
//! of them wait for another process. A test whose own program has Toft inside is apart.

mod bench;
mod command_line;
mod common;
mod every_verb;
mod explain;
mod files;
mod filtered;
mod heap;
mod hints;
mod java;
mod jemalloc;
mod labels;
mod launch;
mod leaks;
mod metrics;
mod own_malloc;
mod pages;
mod places;
mod profile;
mod prometheus;
mod purge;
mod python;
mod record;
mod rss;
mod samples;
mod stats;
mod threads;
mod top;
mod verbs;
mod vet;
mod watch;
