//! Takes out of a trace what tells of the machine: the addresses of call sites, and the names of
//! the files that were mapped. `cargo run -p toft-trace --example anonymous -- FROM TO`

use std::error::Error;
use toft_trace::{Trace, Writer};

fn main() -> Result<(), Box<dyn Error>> {
    let mut names = std::env::args_os().skip(1);
    let (from, to) = names.next().zip(names.next()).ok_or("which file, and into which?")?;
    let trace = Trace::read(&std::fs::read(from)?)?;
    // The writer numbers events in the order in which it gets them, so they go in that order; the
    // objects that they name get the new numbers.
    let mut events: Vec<_> = trace
        .threads
        .iter()
        .flat_map(|thread| thread.events.iter().map(|event| (thread.number, *event)))
        .collect();
    events.sort_by_key(|(_, event)| event.sequence);
    let mut writer = Writer::new(Vec::new(), 1)?;
    let mut renamed = std::collections::HashMap::new();
    for (thread, event) in events {
        use toft_trace::Action::{Free, Resize};
        let action = match event.action {
            Free { object } => match renamed.get(&object) {
                Some(&object) => Free { object },
                None => continue,
            },
            Resize { object, size, site } => match renamed.get(&object) {
                Some(&object) => Resize { object, size, site },
                None => continue,
            },
            other => other,
        };
        renamed.insert(event.sequence, writer.event(thread, action)?);
    }
    std::fs::write(to, writer.finish()?)?;
    Ok(())
}
