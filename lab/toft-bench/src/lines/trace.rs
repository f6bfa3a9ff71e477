//! What valgrind's tool lackey prints of a program: its instructions, and their accesses to memory.

use super::caches::Access;

/// A line of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process has this number. Every message of valgrind begins so.
    Process(u32),
    /// The instruction at this address runs; the accesses that follow are its own.
    Instruction(u64),
    Access(Access),
}

impl Event {
    /// Reads a line: `I  04016f60,3`, ` L 1ffeffe7e0,8` (a load), ` S` (a store), ` M` (both), or a
    /// message, `==1234== text`.
    pub fn parse(line: &str) -> Option<Self> {
        if let Some(rest) = line.strip_prefix("==") {
            return rest.split_once("==")?.0.parse().ok().map(Self::Process);
        }
        let (kind, rest) = line.split_at_checked(3)?;
        let (address, size) = rest.trim_end().split_once(',')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let access =
            |write| Some(Self::Access(Access { address, size: size.parse().ok()?, write }));
        match kind {
            "I  " => Some(Self::Instruction(address)),
            " L " => access(false),
            " S " | " M " => access(true),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_read_and_others_are_passed_over() {
        let access = |write| Event::Access(Access { address: 0x1f_fe00_0010, size: 8, write });
        for (line, event) in [
            ("I  04016f60,3\n", Event::Instruction(0x0401_6f60)),
            (" L 1ffe000010,8\n", access(false)),
            (" S 1ffe000010,8", access(true)),
            (" M 1ffe000010,8\n", access(true)),
            ("==1234== Lackey, an example Valgrind tool\n", Event::Process(1234)),
        ] {
            assert_eq!(Event::parse(line), Some(event), "{line}");
        }
        for line in ["", "\n", "I  xyz,3", " L 10", " X 10,8", " L 10,", "--1234-- x", "= é,"] {
            assert_eq!(Event::parse(line), None, "{line}");
        }
    }
}
