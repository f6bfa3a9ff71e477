//! The line of an instruction, by the table of a code object (`co_linetable`).
//!
//! ```text
//! entry   1 kkkk nnn, then bytes with upper bit 0    the next n + 1 instructions
//! k       0..=9  the line stays                      15  they have no line
//!         10, 11, 12  the line grows by 0, 1, 2
//!         13, 14  the line changes by the number that follows: 6 bits in a byte, the lowest first,
//!                 the seventh says that more follow, and the lowest bit of all is the sign
//! ```

const ENTRY: u8 = 0x80;
const NO_LINE: u8 = 15;
const MORE: u8 = 0x40;

/// Returns the line of the instruction `wanted` of a function that begins in line `first`. `byte`
/// returns the bytes of the table, of which there are `len`. Returns `None` if the instruction has
/// no line, or if the table makes no sense.
pub(super) fn line_of(
    first: u32,
    wanted: usize,
    len: usize,
    mut byte: impl FnMut(usize) -> Option<u8>,
) -> Option<u32> {
    let mut line = i64::from(first);
    let (mut at, mut instruction) = (0, 0);
    while at < len {
        let entry = byte(at).filter(|entry| entry & ENTRY != 0)?;
        at += 1;
        let kind = entry >> 3 & 15;
        line += match kind {
            10..=12 => i64::from(kind - 10),
            13 | 14 => signed(&mut at, len, &mut byte)?,
            _ => 0,
        };
        instruction += usize::from(entry & 7) + 1;
        if wanted < instruction {
            return u32::try_from(line).ok().filter(|_| kind != NO_LINE);
        }
        while at < len && byte(at)? & ENTRY == 0 {
            at += 1;
        }
    }
    None
}

/// Reads a signed number at `at`, and moves `at` after it.
fn signed(at: &mut usize, len: usize, byte: &mut impl FnMut(usize) -> Option<u8>) -> Option<i64> {
    let (mut number, mut shift) = (0_u32, 0);
    loop {
        let part = byte(*at).filter(|part| *at < len && part & ENTRY == 0)?;
        *at += 1;
        number |= u32::from(part & (MORE - 1)).checked_shl(shift)?;
        shift += 6;
        if part & MORE == 0 {
            break;
        }
    }
    let size = i64::from(number >> 1);
    Some(if number & 1 == 0 { size } else { -size })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn line(table: &[u8], instruction: usize) -> Option<u32> {
        line_of(10, instruction, table.len(), |at| table.get(at).copied())
    }

    fn entry(kind: u8, instructions: u8) -> u8 {
        ENTRY | kind << 3 | (instructions - 1)
    }

    #[test]
    fn each_kind_of_entry_gives_its_line() {
        let table = [
            &[entry(0, 1), 0x12][..],
            &[entry(11, 8), 4, 9],
            &[entry(12, 2), 4, 9],
            &[entry(15, 1)],
            &[entry(13, 1), 2 * 20],
            &[entry(14, 2), 2 * 6 + 1, 1, 5, 7],
            // 100 lines on: 200 is 3 * 64 + 8.
            &[entry(13, 1), MORE | 8, 3],
            &[entry(10, 1), 0, 0],
        ]
        .concat();
        let lines: std::vec::Vec<_> = (0..18).map(|i| line(&table, i)).collect();
        let mut wanted = std::vec![Some(10)];
        wanted.extend([Some(11); 8]);
        wanted.extend([Some(13), Some(13), None, Some(33), Some(27), Some(27), Some(127)]);
        wanted.extend([Some(127), None]);
        assert_eq!(lines, wanted);
    }

    /// What CPython 3.11 makes of this function, and its own `co_lines()`:
    ///
    /// ```text
    /// def f(n):
    ///     kept = [str(i)
    ///             for i in range(n)]
    ///     return kept
    /// ```
    #[test]
    fn a_table_of_cpython_is_read() {
        let table = [
            0x80, 0x00, 0xf0, 0x02, 0x01, 0x0c, 0x1f, 0xf0, 0x00, 0x01, 0x0c, 0x1f, 0xdd, 0x15,
            0x1a, 0x98, 0x31, 0x91, 0x58, 0x94, 0x58, 0xf0, 0x03, 0x01, 0x0c, 0x1f, 0xf1, 0x00,
            0x01, 0x0c, 0x1f, 0xf4, 0x00, 0x01, 0x0c, 0x1f, 0x80, 0x44, 0xe0, 0x0b, 0x0f, 0x80,
            0x4b,
        ];
        let lines = [(0..1, 1), (1..3, 2), (3..17, 3), (17..26, 2), (26..28, 4)];
        for (instruction, wanted) in
            lines.into_iter().flat_map(|(all, line)| all.map(move |i| (i, line)))
        {
            let line = line_of(1, instruction, table.len(), |at| table.get(at).copied());
            assert_eq!(line, Some(wanted), "{instruction}");
        }
    }

    #[test]
    fn damaged_tables_end_the_search() {
        assert_eq!(line(&[], 0), None);
        assert_eq!(line(&[0x12, 0x80], 0), None, "no entry");
        assert_eq!(line(&[entry(13, 1)], 0), None, "cut off");
        assert_eq!(line(&[entry(13, 1), 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f], 0), None);
        assert_eq!(line(&[entry(13, 1), 63], 0), None, "a line before the first");
        assert_eq!(line_of(10, 0, usize::MAX, |_| None), None);
    }
}
