//! `profile.proto` of pprof, compressed: what `go tool pprof` and other programs read.
//!
//! A sample for each row: the blocks and bytes that it has ever had, and those that live, at the
//! call site, with the slot's size as the label `bytes`. Functions have names already, so that a
//! reader does not need the files. Sampled stacks are samples of many locations, and have separate
//! values after those of the rows (`sampled_...`). The values of rows are exact, those of stacks
//! are estimates, and a reader shows one value at a time. Stacks without rows have theirs alone.
//!
//! Several processes can be in one file. Each sample then has the labels `process` and `pid`.
//!
//! Functions of libraries inside the label are left out, unless the view is full: a reader would
//! begin with them, and name the same few for all memory.

use std::collections::HashMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::View;
use crate::{Location as Site, Profile};

#[derive(Clone, PartialEq, Message)]
struct Proto {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
    #[prost(int64, tag = "3")]
    num: i64,
    #[prost(int64, tag = "4")]
    num_unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(uint64, tag = "4")]
    file_offset: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// What is written so far; everything has one number.
#[derive(Default)]
struct Builder {
    proto: Proto,
    strings: HashMap<String, i64>,
    mappings: HashMap<(String, u64), u64>,
    /// By site, and how many of the innermost functions there are left out.
    locations: HashMap<(u64, usize), u64>,
    functions: HashMap<(String, String), u64>,
}

impl Builder {
    fn string(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.strings.get(text) {
            return number;
        }
        let number = self.proto.string_table.len() as i64;
        self.proto.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.string(kind), unit: self.string(unit) }
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let key = (name.to_owned(), file.to_owned());
        if let Some(&id) = self.functions.get(&key) {
            return id;
        }
        let id = self.proto.function.len() as u64 + 1;
        let (name, filename) = (self.string(name), self.string(file));
        self.proto.function.push(Function { id, name, system_name: name, filename });
        self.functions.insert(key, id);
        id
    }

    /// The mapping of a row's file, made as large as the row needs.
    fn mapping(&mut self, row: &Site) -> u64 {
        const PAGE: u64 = 4096;
        let (Some(path), Some(offset)) = (&row.module, row.offset) else { return 0 };
        let start = row.site.wrapping_sub(offset);
        let limit = row.site.saturating_add(1).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let named = !row.frames.is_empty();
        let id = match self.mappings.get(&(path.clone(), start)) {
            Some(&id) => id,
            None => {
                let id = self.proto.mapping.len() as u64 + 1;
                let filename = self.string(path);
                let build_id = self.string(row.build_id.as_deref().unwrap_or(""));
                self.proto.mapping.push(Mapping {
                    id,
                    memory_start: start,
                    memory_limit: limit,
                    filename,
                    build_id,
                    ..Mapping::default()
                });
                self.mappings.insert((path.clone(), start), id);
                id
            }
        };
        if let Some(mapping) = self.proto.mapping.get_mut(id as usize - 1) {
            mapping.memory_limit = mapping.memory_limit.max(limit);
            mapping.has_functions |= named;
            mapping.has_filenames |= row.frames.iter().any(|frame| frame.file.is_some());
            mapping.has_line_numbers |= row.frames.iter().any(|frame| frame.line.is_some());
            mapping.has_inline_frames |= named;
        }
        id
    }

    /// The location of a call site, without that many of the innermost functions there.
    fn location(&mut self, row: &Site, inside: usize) -> u64 {
        let mapping_id = self.mapping(row);
        if let Some(&id) = self.locations.get(&(row.site, inside)) {
            return id;
        }
        let mut line: Vec<Line> = row
            .frames
            .iter()
            .skip(inside)
            .map(|frame| Line {
                function_id: self.function(&frame.function, frame.file.as_deref().unwrap_or("")),
                line: frame.line.unwrap_or(0).into(),
            })
            .collect();
        if line.is_empty() {
            // pprof shows addresses of mappings without names in no way that a person can read.
            let name = row.words().join(" ");
            line.push(Line { function_id: self.function(&name, ""), line: 0 });
        }
        let id = self.proto.location.len() as u64 + 1;
        // The call, and not what it returns to.
        let address = row.site.wrapping_sub(1);
        self.proto.location.push(Location { id, mapping_id, address, line });
        self.locations.insert((row.site, inside), id);
        id
    }
}

/// The values of rows, in the order of Go's own heap profiles.
const EXACT: [(&str, &str); 4] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];

/// The values of sampled stacks.
const SAMPLED: [(&str, &str); 4] = [
    ("sampled_alloc_objects", "count"),
    ("sampled_alloc_space", "bytes"),
    ("sampled_inuse_objects", "count"),
    ("sampled_inuse_space", "bytes"),
];

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Adds the samples of a process, with these labels.
fn add(builder: &mut Builder, profile: &Profile, labels: &[Label], full: bool) {
    let values = builder.proto.sample_type.len();
    // In another process an address is another call site.
    builder.mappings.clear();
    builder.locations.clear();
    for row in &profile.rows {
        let all = row.location.frames.len();
        let inside = if full { 0 } else { all - row.location.frames_from_label().len() };
        let location = builder.location(&row.location, inside);
        let (key, num_unit) = (builder.string("bytes"), builder.string("bytes"));
        let average = match row.objects {
            0 => row.allocated / row.allocations.max(1),
            objects => row.bytes / objects,
        };
        let size = if row.size == 0 { average } else { row.size };
        let size = Label { key, num: number(size), num_unit, ..Label::default() };
        let exact = [row.allocations, row.allocated, row.objects, row.bytes];
        let mut value = Vec::from(exact.map(number));
        value.resize(values, 0);
        builder.proto.sample.push(Sample {
            location_id: vec![location],
            value,
            label: labels.iter().cloned().chain([size]).collect(),
        });
    }
    for stack in profile.sampled.iter().flat_map(|sampled| &sampled.stacks) {
        let mut inside = if full { 0 } else { stack.inside() };
        let mut location_id = Vec::new();
        for call in &stack.calls {
            let functions = call.frames.len().max(1);
            if inside < functions {
                location_id.push(builder.location(call, inside));
            }
            inside = inside.saturating_sub(functions);
        }
        let estimates = [stack.allocations, stack.allocated, stack.objects, stack.bytes];
        let mut value = vec![0; values - estimates.len()];
        value.extend(estimates.map(number));
        builder.proto.sample.push(Sample { location_id, value, label: labels.to_vec() });
    }
}

/// Builds the profile of these processes. `labelled` is true if samples say which process.
fn build(profiles: &[Profile], View { stacks, full }: View, labelled: bool) -> Proto {
    let mut builder = Builder::default();
    // The first string is empty, by the format's rule.
    builder.string("");
    let sampled = profiles.iter().any(|profile| profile.sampled.is_some());
    if !sampled || profiles.iter().any(|profile| !profile.rows.is_empty()) {
        let exact = EXACT.map(|(kind, unit)| builder.value_type(kind, unit));
        builder.proto.sample_type.extend(exact);
    }
    if sampled {
        let estimates = SAMPLED.map(|(kind, unit)| builder.value_type(kind, unit));
        builder.proto.sample_type.extend(estimates);
    }
    let default = if stacks { "sampled_inuse_space" } else { "inuse_space" };
    builder.proto.default_sample_type = builder.string(default);
    builder.proto.period_type = Some(builder.value_type("space", "bytes"));
    // Of the rows nothing is sampled: every byte is counted.
    builder.proto.period = 1;
    let time = profiles.iter().map(|profile| profile.time).max().unwrap_or(0);
    builder.proto.time_nanos = i64::try_from(time).unwrap_or(0).saturating_mul(1_000_000_000);
    for profile in profiles {
        let about = format!(
            "process {} ({}) on Toft {}, {}",
            profile.pid,
            profile.name,
            profile.toft,
            profile.source.words()
        );
        let estimates =
            profile.sampled.iter().map(|sampled| format!("sampled_...: {}", sampled.about()));
        let estimates: Vec<String> = estimates.collect();
        for comment in std::iter::once(&about).chain(&profile.notes).chain(&estimates) {
            let number = builder.string(comment);
            builder.proto.comment.push(number);
        }
        let labels = [("process", &profile.name), ("pid", &profile.pid.to_string())];
        let labels = labels.iter().filter(|_| labelled).map(|(key, text)| Label {
            key: builder.string(key),
            str: builder.string(text),
            ..Label::default()
        });
        let labels: Vec<Label> = labels.collect();
        add(&mut builder, profile, &labels, full);
    }
    builder.proto
}

/// The file. A reader begins with what the view shows.
pub fn write(profile: &Profile, view: View) -> Vec<u8> {
    compress(&build(std::slice::from_ref(profile), view, false))
}

/// The file of several processes: each sample has the labels `process` and `pid`.
pub fn write_together(profiles: &[Profile], view: View) -> Vec<u8> {
    compress(&build(profiles, view, true))
}

fn compress(proto: &Proto) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into memory does not fail.
    let _ = encoder.write_all(&proto.encode_to_vec());
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::Frame;
    use crate::profile::samples::*;

    #[test]
    fn what_is_written_can_be_read_and_has_every_byte() {
        let mut inlined = row("inner", 2, 32, 2);
        inlined.location.frames.push(Frame { function: "outer".into(), file: None, line: Some(9) });
        let mut nowhere = row("", 5, 64, 1);
        nowhere.location = Site { site: nowhere.location.site, ..Site::default() };
        let profile = profile(vec![row("f", 1, 16, 3), row("f", 1, 48, 1), inlined, nowhere]);
        let mut bytes = Vec::new();
        let file = write(&profile, View::default());
        flate2::read::GzDecoder::new(&file[..]).read_to_end(&mut bytes).unwrap();
        let proto = Proto::decode(&bytes[..]).unwrap();
        let sum = |i: usize| proto.sample.iter().map(|sample| sample.value[i]).sum::<i64>();
        assert_eq!((sum(0), sum(1)), (profile.allocations as i64, profile.allocated as i64));
        assert_eq!((sum(2), sum(3)), (profile.objects as i64, profile.bytes as i64));
        assert_eq!(proto.string_table[0], "");
        // Two sizes of one site are two samples at one location.
        assert_eq!((proto.sample.len(), proto.location.len(), proto.mapping.len()), (4, 3, 1));
        assert_eq!(proto.string_table[proto.mapping[0].build_id as usize], "abcd");
        let name = |line: &Line| {
            let function = &proto.function[line.function_id as usize - 1];
            proto.string_table[function.name as usize].as_str()
        };
        let lines: Vec<Vec<&str>> =
            proto.location.iter().map(|l| l.line.iter().map(name).collect()).collect();
        assert!(lines.contains(&vec!["inner", "outer"]), "{lines:?}");
        assert!(lines.contains(&vec!["0x55550005"]), "{lines:?}");
        for location in proto.location.iter().filter(|location| location.mapping_id != 0) {
            let mapping = &proto.mapping[location.mapping_id as usize - 1];
            assert!((mapping.memory_start..mapping.memory_limit).contains(&location.address));
        }
    }

    #[test]
    fn sampled_stacks_have_values_of_their_own() {
        let profile = sampled_profile();
        let proto =
            build(std::slice::from_ref(&profile), View { stacks: true, full: false }, false);
        let text = |number: i64| proto.string_table[number as usize].as_str();
        let kinds: Vec<&str> = proto.sample_type.iter().map(|kind| text(kind.kind)).collect();
        assert_eq!(kinds[3..5], ["inuse_space", "sampled_alloc_objects"]);
        assert_eq!(text(proto.default_sample_type), "sampled_inuse_space");
        assert!(proto.sample.iter().all(|sample| sample.value.len() == 8));
        let sum = |i: usize| proto.sample.iter().map(|sample| sample.value[i]).sum::<i64>();
        assert_eq!((sum(3), sum(7)), (profile.bytes as i64, 3000));
        let deep = proto.sample.iter().find(|sample| sample.value[7] == 2000).unwrap();
        let names = deep.location_id.iter().map(|&id| &proto.location[id as usize - 1]);
        let names: Vec<&str> =
            names.map(|l| text(proto.function[l.line[0].function_id as usize - 1].name)).collect();
        assert_eq!(names, ["leaf", "middle", "main"]);
        // Without rows there are no values of rows.
        let alone = Profile { rows: Vec::new(), ..profile };
        let proto = build(&[alone], View { stacks: true, full: false }, false);
        let text = |number: i64| proto.string_table[number as usize].as_str();
        let kinds: Vec<&str> = proto.sample_type.iter().map(|kind| text(kind.kind)).collect();
        assert_eq!(kinds, SAMPLED.map(|(kind, _)| kind));
        assert_eq!(proto.sample.iter().map(|sample| sample.value[3]).sum::<i64>(), 3000);
    }

    #[test]
    fn samples_of_several_processes_say_of_which_they_are() {
        let mut other = profile(vec![row("g", 1, 16, 5)]);
        (other.pid, other.name) = (77, "other".into());
        let first = sampled_profile();
        let proto = build(&[first.clone(), other], View::default(), true);
        let text = |number: i64| proto.string_table[number as usize].as_str();
        let of = |pid: &str| {
            let samples = proto.sample.iter().filter(|sample| {
                sample.label.iter().any(|label| (text(label.key), text(label.str)) == ("pid", pid))
            });
            samples.collect::<Vec<_>>()
        };
        let (mine, others) = (of(&first.pid.to_string()), of("77"));
        assert_eq!(mine.len() + others.len(), proto.sample.len());
        let [only] = others[..] else { panic!("{others:?}") };
        assert_eq!(only.value, [10, 160, 5, 80, 0, 0, 0, 0]);
        let labels: Vec<_> = only.label.iter().map(|l| (text(l.key), text(l.str), l.num)).collect();
        assert_eq!(labels, [("process", "other", 0), ("pid", "77", 0), ("bytes", "", 16)]);
        // At the address that is another function in the first process.
        let location = &proto.location[only.location_id[0] as usize - 1];
        let name = proto.function[location.line[0].function_id as usize - 1].name;
        assert_eq!(text(name), "g");
        let is_same = |l: &&Location| l.address == location.address;
        assert_eq!(proto.location.iter().filter(is_same).count(), 2);
    }
}
