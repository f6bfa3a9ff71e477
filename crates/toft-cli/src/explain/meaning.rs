//! What each kind of report means, in plain words, and what to do next.

/// Of one kind of report.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    /// What has happened.
    pub means: &'static str,
    /// What helps to find why, the most useful first.
    pub next: &'static [&'static str],
}

/// What a report begins with, what its message has in it, and what that means. The first row that fits counts.
const TABLE: &[(&str, &str, Meaning)] = &[
    (
        "double free",
        "free by another thread",
        Meaning {
            means: "two threads freed one block, at the same moment or nearly: both got through, and the thread that had allocated it found that when it collected what others had freed.",
            next: &[
                "Find who owns the block: exactly one place may free it. Often both threads believe to be the last user of a shared object: count its users atomically.",
                "Run the program under a race detector (-fsanitize=thread).",
            ],
        },
    ),
    (
        "double free",
        "",
        Meaning {
            means: "the program freed a block that it had freed before and had not been given again since.",
            next: &[
                "Look at the call: the pointer it passes was freed earlier, by another owner or on another way through the function. Set a pointer to NULL where it is freed, or give the block one owner.",
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
                "Free the pointer that malloc returned. Where it is moved along while it is used, keep the first value.",
                "In C++, a pointer to a base class that is not the first one of an object, and without a virtual destructor, is such a pointer; and new[] must meet delete[].",
            ],
        },
    ),
    (
        "invalid free",
        "never handed out",
        Meaning {
            means: "the address is one at which a block could begin, but malloc has never returned it: the pointer was computed, or overwritten.",
            next: &[
                "Look at where the pointer comes from: an overflow into the structure that holds it, arithmetic, or a variable that was never set.",
            ],
        },
    ),
    (
        "invalid free",
        "",
        Meaning {
            means: "the address does not belong to this allocator: it is on the stack, in a global variable, in memory of mmap or of another allocator, or nowhere.",
            next: &[
                "Look at the call: it frees something that malloc has not returned. A common case is memory of a library that has its own function to free it.",
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
                "Compare the two stacks: between the allocation and the read a step is missing that fills the block, or the read goes further than what was filled.",
                "Where it is right that the block begins with zeros, allocate it by calloc.",
                "A whole page of the block was unwritten. Reads of single bytes on a page that was written to elsewhere are not seen: see docs/uninitialised.md.",
            ],
        },
    ),
    (
        "dangling pointer",
        "",
        Meaning {
            means: "a word of the program's memory leads into a block that was freed. That is an error only if the program uses it.",
            next: &[
                "Look at the block or variable that holds it: set the pointer to NULL where the block is freed, or free the holder first.",
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
                "Find who still had a pointer to the block: TOFT_GUARDED=1 makes the write itself fault, with its stack and that of the free.",
            ],
        },
    ),
    (
        "heap overflow",
        "was overwritten",
        Meaning {
            means: "what lies behind a block's last byte was found changed: the program wrote beyond its end, at some time before this report.",
            next: &[
                "Compare the size that was asked for, at the call site, with what is written there.",
                "TOFT_GUARDED=1 puts blocks right before a page that faults: the write itself is then named.",
            ],
        },
    ),
    (
        "heap underflow",
        "was overwritten",
        Meaning {
            means: "what lies before a block's first byte was found changed: the program wrote below its start, or beyond the end of the block before it.",
            next: &["Look for an index that becomes negative, and at the neighbour before it."],
        },
    ),
    (
        "heap overflow",
        "",
        Meaning {
            means: "the program reached beyond the end of a block.",
            next: &[
                "Compare the size that was asked for, at the allocation, with what the access needs: a terminating zero, an index that is one too large, a size in elements instead of bytes.",
            ],
        },
    ),
    (
        "heap underflow",
        "",
        Meaning {
            means: "the program reached below the start of a block.",
            next: &[
                "Look for an index that becomes negative, or a pointer that is moved back once too often.",
            ],
        },
    ),
    (
        "invalid access",
        "",
        Meaning {
            means: "the program reached memory of the heap in which there is no block and never was one.",
            next: &[
                "Look at where the pointer comes from: it was computed, overwritten, or never set.",
            ],
        },
    ),
    (
        "invalid zone",
        "",
        Meaning {
            means: "a call about a private zone was given a handle that stands for none: of a zone that was destroyed, or one that toft_zone_create has never returned.",
            next: &[
                "Find who destroyed the zone, and why somebody still had its handle; set a handle to 0 where its zone is destroyed.",
                "A handle that never was has been overwritten, computed, or was never set.",
            ],
        },
    ),
    (
        "stray access",
        "",
        Meaning {
            means: "code outside of the allocator reached for the allocator's own tables, which TOFT_PKEY protects.",
            next: &[
                "Look at where the pointer comes from: it was computed, overwritten, or never set. The instruction itself is the first line of the stack.",
            ],
        },
    ),
    (
        "damaged metadata",
        "",
        Meaning {
            means: "the allocator's own tables do not hold together. They lie far from every block, so that a wild write or a fault of the machine has changed them, or the allocator itself has a mistake.",
            next: &[
                "Run with TOFT_VERIFY=1 to find the moment, and tell the makers of Toft if the program is innocent.",
            ],
        },
    ),
    (
        "wild write",
        "",
        Meaning {
            means: "something wrote to a slot that nobody ever had. No block overflowed into it byte by byte, or that block would have been named: a pointer that was computed wrongly, overwritten or never set led there.",
            next: &[
                "Look for stores through a pointer or an index that was not checked; the byte's value and place often tell which structure was meant.",
                "Run with TOFT_VERIFY=1 to find the moment.",
            ],
        },
    ),
    (
        "size mismatch",
        "",
        Meaning {
            means: "a sized free or delete was told another size than the block has.",
            next: &[
                "In C++: the type at the delete is not the one at the new; a base class without a virtual destructor, or new[] with delete.",
            ],
        },
    ),
    (
        "leaks",
        "",
        Meaning {
            means: "these blocks were not freed, and when the program ended nothing led to them any more: no pointer to them or into them was left anywhere. With TOFT_LEAKS=all, or where the report says that it could not be looked at, what could still be reached is among them.",
            next: &[
                "Begin with the largest: its call site is where the memory was asked for, not where it should have been freed.",
                "Look for the last pointer to such a block: it was overwritten, or its owner was freed and the block was not.",
            ],
        },
    ),
];

/// For kinds that a newer library may have.
const OTHER: Meaning = Meaning {
    means: "the library found something that must not be, and named it in this line.",
    next: &["Look at the calls above, the first one first."],
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
