//! Profiles that are made up, for the tests of all that reads and writes profiles.

use super::*;
use crate::{Frame, Frames};

/// A call of that function at that place of `/bin/sample`, in a line of the same number.
pub fn location(function: &str, file: &str, offset: u64) -> Location {
    Location {
        site: 0x5555_0000 + offset,
        module: Some("/bin/sample".into()),
        build_id: Some("abcd".into()),
        offset: Some(offset),
        frames: Frames::from(vec![Frame {
            function: function.into(),
            file: Some(file.into()),
            line: Some(offset as u32),
        }]),
        program: None,
    }
}

/// A row of that function at that place of `/bin/sample`.
pub fn row(function: &str, offset: u64, size: u64, objects: u64) -> Row {
    Row {
        location: location(function, "/src/sample.c", offset),
        partition: 3,
        size,
        objects,
        bytes: size * objects,
        allocations: 2 * objects,
        allocated: 2 * size * objects,
        recent: None,
        share: Share::Alone,
    }
}

/// A profile with two stacks: one whole, one truncated.
pub fn sampled_profile() -> Profile {
    let call = |function: &str, line| location(function, "/src/s.c", line);
    let stack = |calls: Vec<Location>, bytes: u64| SampledStack {
        truncated: calls.len() == 1,
        calls,
        samples: 4,
        live_samples: 2,
        objects: bytes / 10,
        bytes,
        allocations: bytes / 5,
        allocated: 2 * bytes,
    };
    let whole = vec![call("leaf", 1), call("middle", 2), call("main", 3)];
    let stacks = vec![stack(whole.clone(), 2000), stack(whole[..1].to_vec(), 1000)];
    let sampled = Some(Sampled { interval: 4096, missed: 0, stacks });
    Profile { sampled, ..profile(vec![row("f", 9, 16, 3)]) }
}

/// A profile of these rows.
pub fn profile(rows: Vec<Row>) -> Profile {
    let mut profile = Profile {
        version: VERSION,
        toft: "0.1.0".into(),
        time: 1_700_000_000,
        pid: 7,
        name: "sample".into(),
        partitions: 64,
        resident: Some(1 << 20),
        rows,
        ..Profile::default()
    };
    profile.finish();
    profile
}
