//! What each kind of report means, in plain words, and what to do next.

/// Of one kind of report.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    /// What has happened.
    pub means: &'static str,
    /// What helps to find why, the most useful first.
    pub next: &'static [&'static str],
}

/// What a report begins with, what its message has in it, and what that means. The first row that
/// fits counts.
const TABLE: &[(&str, &str, Meaning)] = &[
    (
        "double free",
        "free by another thread",
        Meaning {
            means: "two threads freed the same block at nearly the same time. Both frees were accepted, and the owner thread found the error when it collected the remote frees.",
            next: &[
                "Find the owner of the block: exactly one place may free it. Often both threads treat themselves as the last user of a shared object: count its users atomically.",
                "Run the program under a race detector (-fsanitize=thread).",
            ],
        },
    ),
    (
        "double free",
        "",
        Meaning {
            means: "the program freed a block that it had already freed, and that malloc had not returned again since.",
            next: &[
                "Check the call: the pointer it passes was freed earlier, by another owner or on another path through the function. Set a pointer to NULL where it is freed, or give the block one owner.",
                "To see the first free as well, run with TOFT_GUARDED=1: the report then has the stacks of the allocation and of both frees.",
            ],
        },
    ),
    (
        "invalid free",
        "bytes inside the",
        Meaning {
            means: "the program passed a pointer into the middle of a block, not to its start.",
            next: &[
                "Free the pointer that malloc returned. If the program advances it while using it, keep the first value.",
                "In C++, a pointer to a base class that is not the first one of an object, and without a virtual destructor, is such a pointer. And new[] needs delete[].",
            ],
        },
    ),
    (
        "invalid free",
        "never handed out",
        Meaning {
            means: "a block could begin at this address, but malloc has never returned it: the pointer was computed, or overwritten.",
            next: &[
                "Check where the pointer comes from: an overflow into the structure that holds it, arithmetic, or a variable that was never set.",
            ],
        },
    ),
    (
        "invalid free",
        "",
        Meaning {
            means: "the address does not belong to this allocator: it is on the stack, in a global variable, in memory of mmap or of another allocator, or not mapped.",
            next: &[
                "Check the call: it frees something that malloc has not returned. A common case is memory of a library that has its own function to free it.",
                "If another allocator is linked into the program, TOFT_ON_MISUSE=warn names these calls and leaves the blocks alone.",
            ],
        },
    ),
    (
        "use after free",
        "",
        Meaning {
            means: "the program read or wrote a block that it had freed before.",
            next: &[
                "Compare the three stacks: the access, the free and the allocation. Either the free came too early, or a pointer was kept that should have been cleared there.",
            ],
        },
    ),
    (
        "uninitialised read",
        "",
        Meaning {
            means: "the program used bytes of a block that nothing had been written to since malloc returned it.",
            next: &[
                "Compare the two stacks: a step that fills the block is missing between the allocation and the read, or the read goes beyond the filled part.",
                "If the block should begin with zeros, allocate it by calloc.",
                "A whole page of the block was unwritten. Reads of single bytes on a page that was written to elsewhere are not seen: see docs/uninitialised.md.",
            ],
        },
    ),
    (
        "dangling pointer",
        "",
        Meaning {
            means: "a word of the program's memory points into a block that was freed. That is an error only if the program uses it.",
            next: &[
                "Check the block or variable that holds it: set the pointer to NULL where the block is freed, or free the holder first.",
                "A word on a stack, or in a part of a block that is not in use, may be left from earlier; and a number may look like a pointer.",
            ],
        },
    ),
    (
        "write after free",
        "",
        Meaning {
            means: "memory of a freed block was found changed: the program wrote through a pointer to it after the free, at some time before this report.",
            next: &[
                "Find the code that still had a pointer to the block: TOFT_GUARDED=1 makes the write itself fault, with its stack and that of the free.",
            ],
        },
    ),
    (
        "heap overflow",
        "was overwritten",
        Meaning {
            means: "the bytes after a block's end were found changed: the program wrote beyond its end, at some time before this report.",
            next: &[
                "Compare the requested size, at the call site, with what is written there.",
                "TOFT_GUARDED=1 puts blocks right before a page that faults: the write itself is then reported.",
            ],
        },
    ),
    (
        "heap underflow",
        "was overwritten",
        Meaning {
            means: "the bytes before a block's start were found changed: the program wrote below its start, or beyond the end of the block before it.",
            next: &["Look for an index that becomes negative, and check the block before it."],
        },
    ),
    (
        "heap overflow",
        "",
        Meaning {
            means: "the program accessed memory beyond the end of a block.",
            next: &[
                "Compare the requested size, at the allocation, with what the access needs: a terminating zero, an index that is one too large, a size in elements instead of bytes.",
            ],
        },
    ),
    (
        "heap underflow",
        "",
        Meaning {
            means: "the program accessed memory before the start of a block.",
            next: &[
                "Look for an index that becomes negative, or a pointer that is moved back once too often.",
            ],
        },
    ),
    (
        "invalid access",
        "",
        Meaning {
            means: "the program accessed heap memory where there is no block and never was one.",
            next: &[
                "Check where the pointer comes from: it was computed, overwritten, or never set.",
            ],
        },
    ),
    (
        "invalid zone",
        "",
        Meaning {
            means: "a call for a private zone got an invalid handle: that of a destroyed zone, or one that toft_zone_create has never returned.",
            next: &[
                "Find the code that destroyed the zone, and the code that still had its handle; set a handle to 0 where its zone is destroyed.",
                "A handle that was never returned was overwritten, computed, or never set.",
            ],
        },
    ),
    (
        "stray access",
        "",
        Meaning {
            means: "code outside of the allocator accessed the allocator's own tables, which TOFT_PKEY protects.",
            next: &[
                "Check where the pointer comes from: it was computed, overwritten, or never set. The instruction itself is the first line of the stack.",
            ],
        },
    ),
    (
        "damaged metadata",
        "",
        Meaning {
            means: "the allocator's own tables are inconsistent. They are far from every block: a wild write or a hardware fault has changed them, or the allocator has a bug.",
            next: &[
                "Run with TOFT_VERIFY=1 to find the moment, and report a bug in Toft if the program is not the cause.",
            ],
        },
    ),
    (
        "wild write",
        "",
        Meaning {
            means: "something wrote to a slot that was never handed out. No block overflowed into it byte by byte, or the report would name that block: a pointer was computed wrongly, overwritten or never set.",
            next: &[
                "Look for stores through a pointer or an index that was not checked; the byte's value and address often show which structure was meant.",
                "Run with TOFT_VERIFY=1 to find the moment.",
            ],
        },
    ),
    (
        "size mismatch",
        "",
        Meaning {
            means: "a sized free or delete got another size than the block has.",
            next: &[
                "In C++: the type at the delete is not the one at the new; a base class without a virtual destructor, or new[] with delete.",
            ],
        },
    ),
    (
        "leaks",
        "",
        Meaning {
            means: "these blocks were not freed, and when the program ended no pointer to them or into them was left. With TOFT_LEAKS=all, or if the report says that the scan was not possible, reachable blocks are among them.",
            next: &[
                "Begin with the largest: its call site is where the block was allocated, not where it should have been freed.",
                "Look for the last pointer to such a block: it was overwritten, or its owner was freed and the block was not.",
            ],
        },
    ),
];

/// For kinds that a newer library may have.
const OTHER: Meaning = Meaning {
    means: "the library found an error, and describes it in this line.",
    next: &["Check the calls above, beginning with the first."],
};

/// What a report means.
pub fn meaning(what: &str, message: &str) -> Meaning {
    let fits = |&&(kind, part, _): &&(&str, &str, Meaning)| kind == what && message.contains(part);
    TABLE.iter().find(fits).map_or(OTHER, |&(.., meaning)| meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_reached() {
        for (kind, part, expected) in TABLE {
            assert_eq!(meaning(kind, &format!("{kind}: free(0x1): {part}")).means, expected.means);
        }
        assert_eq!(meaning("something new", "").means, OTHER.means);
    }
}
