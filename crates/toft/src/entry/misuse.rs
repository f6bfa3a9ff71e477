//! Naming a bad call: one line, from a fixed buffer, what else is known (`detail.rs`), and then the
//! end or going on. A further check has its own line: [`head`], what it saw,
//! [`Allocator::conclude`].

use super::Allocator;
use super::allocator::Found;
use crate::large::{Block, BlockState, Damage};
use crate::os::Os;
use crate::report::Stack;
use crate::slab::{Slab, SlotState};
use crate::sync::Ordering::Relaxed;

/// Which call was given a bad pointer. No more than a number: free's fast path hands it on in a
/// register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `free`, `cfree`, and deletes.
    Free,
    /// `operator delete` in all its forms.
    Delete,
    /// `free_sized`.
    FreeSized,
    /// `free_aligned_sized`.
    FreeAlignedSized,
    /// `toft_free_permanently`.
    FreePermanently,
    /// `realloc` and `reallocarray`.
    Realloc,
    /// `malloc_usable_size`.
    UsableSize,
    /// Whatever hands out memory.
    Malloc,
    /// Seen by the owner when it collected the frees of other threads.
    RemoteFree,
    /// `memcpy`, of `libtoft_checked.so`.
    Memcpy,
    /// `mempcpy`.
    Mempcpy,
    /// `memmove`.
    Memmove,
    /// `memset`.
    Memset,
    /// `bzero`.
    Bzero,
    /// `toft_verify`, or the same on the library's own account.
    Verify,
    /// `toft_dangling`, or the same on the library's own account.
    Look,
    /// `toft_zone_malloc`, `toft_zone_calloc` and `toft_zone_aligned_alloc`.
    ZoneMalloc,
    /// `toft_zone_free`.
    ZoneFree,
    /// `toft_zone_usable_size`.
    ZoneUsableSize,
    /// `toft_zone_verify`.
    ZoneVerify,
    /// `toft_zone_name` and `toft_zone_rename`.
    ZoneName,
    /// `toft_zone_stats`.
    ZoneStats,
    /// `toft_zone_destroy`.
    ZoneDestroy,
    /// `toft_zone_tag`.
    ZoneTag,
    /// `toft_zone_resolve`.
    ZoneResolve,
    /// No call: an instruction that reads.
    Read,
    /// No call: an instruction that writes.
    Write,
    /// The kernel, for a system call that the program has made.
    System,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Call::Free => "free",
            Call::Delete => "operator delete",
            Call::FreeSized => "free_sized",
            Call::FreeAlignedSized => "free_aligned_sized",
            Call::FreePermanently => "toft_free_permanently",
            Call::Realloc => "realloc",
            Call::UsableSize => "malloc_usable_size",
            Call::Malloc => "malloc",
            Call::RemoteFree => "free by another thread",
            Call::Memcpy => "memcpy",
            Call::Mempcpy => "mempcpy",
            Call::Memmove => "memmove",
            Call::Memset => "memset",
            Call::Bzero => "bzero",
            Call::Verify => "verify",
            Call::Look => "look",
            Call::ZoneMalloc => "toft_zone_malloc",
            Call::ZoneFree => "toft_zone_free",
            Call::ZoneUsableSize => "toft_zone_usable_size",
            Call::ZoneVerify => "toft_zone_verify",
            Call::ZoneName => "toft_zone_rename",
            Call::ZoneStats => "toft_zone_stats",
            Call::ZoneDestroy => "toft_zone_destroy",
            Call::ZoneTag => "toft_zone_tag",
            Call::ZoneResolve => "toft_zone_resolve",
            Call::Read => "read",
            Call::Write => "write",
            Call::System => "system call",
        }
    }
}

/// A line being written. What does not fit is cut off; nothing is ever allocated.
#[derive(Debug)]
pub struct Line {
    bytes: [u8; 320],
    len: usize,
    hide_addresses: bool,
    /// What it names, for the rest of the report; nothing, where it is no report.
    pub(super) subject: Subject,
}

/// What a report is of: what its first line begins with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Subject {
    pub(super) what: &'static str,
    pub(super) call: &'static str,
    pub(super) address: usize,
    /// Where the block in question begins, if `address` may be outside of it.
    pub(super) block: Option<usize>,
    /// Whether a library that belongs to this one has called (`libtoft_checked.so`).
    pub(super) companion: bool,
}

impl Line {
    /// An empty line.
    pub fn new(hide_addresses: bool) -> Line {
        Line { bytes: [0; 320], len: 0, hide_addresses, subject: Subject::default() }
    }

    /// Appends text.
    #[inline(never)]
    pub fn text(&mut self, text: &str) -> &mut Line {
        self.raw(text.as_bytes())
    }

    /// Appends bytes as they are.
    #[inline(never)]
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Line {
        // The last byte is kept for the newline.
        for &byte in bytes {
            if self.len + 1 < self.bytes.len()
                && let Some(place) = self.bytes.get_mut(self.len)
            {
                *place = byte;
                self.len += 1;
            }
        }
        self
    }

    /// Appends a number in decimal digits.
    #[inline(never)]
    pub fn number(&mut self, mut number: u64) -> &mut Line {
        let mut digits = [b'0'; 20];
        let mut first = 20;
        for place in digits.iter_mut().rev() {
            first -= 1;
            *place = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.raw(digits.get(first..).unwrap_or(&[]))
    }

    /// Appends an address, unless addresses are hidden.
    #[inline(never)]
    pub fn address(&mut self, address: usize) -> &mut Line {
        self.text("0x");
        if self.hide_addresses {
            return self.text("?");
        }
        let bits = usize::BITS - (address | 1).leading_zeros();
        for digit in (0..bits.div_ceil(4)).rev() {
            let value = (address >> (4 * digit) & 15) as u8;
            self.raw(&[if value < 10 { b'0' + value } else { b'a' + value - 10 }]);
        }
        self
    }

    /// The line so far.
    pub(super) fn so_far(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// The line so far, ended by a newline.
    pub fn end(&mut self) -> &[u8] {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = b'\n';
        }
        self.bytes.get(..=self.len).unwrap_or(&[])
    }
}

impl<O: Os> Allocator<O> {
    /// A call was given an address that is not a live block: says what it is instead.
    #[cold]
    #[inline(never)]
    pub fn misused(&self, call: Call, address: usize) {
        if self.free_told(address, call) {
            return;
        }
        let mut line = Line::new(self.hide_addresses);
        match self.find(address) {
            Found::Slot(slab, slot) => self.describe_slot(&mut line, call, slab, slot),
            Found::InSlab(slab, offset) => {
                let slot = offset / slab.size();
                if slot >= slab.slots() {
                    head(&mut line, "invalid free", call, address);
                    line.text("not a block of this allocator");
                } else {
                    self.describe_inside(&mut line, call, slab, slot, offset % slab.size());
                }
            }
            Found::Large(block) => {
                head(&mut line, "double free", call, address);
                line.text("this ").number(block.bytes() as u64).text("-byte block is already free");
                line.text(" (large block, partition ").number(block.partition() as u64);
                line.text("; call site ").address(block.site()).text(")");
            }
            Found::InLarge(block) => {
                let begin = self.large.address(block);
                head(&mut line, "invalid free", call, address);
                line.number(address.abs_diff(begin) as u64);
                line.text(if address < begin {
                    " bytes before the "
                } else {
                    " bytes inside the "
                });
                line.number(block.bytes() as u64).text("-byte block at ").address(begin);
                line.text(" (large block, partition ").number(block.partition() as u64);
                let live = block.state() == BlockState::Live;
                line.text(if live { ", live" } else { ", free" });
                line.text("; call site ").address(block.site()).text(")");
            }
            Found::Guarded(slot) => self.describe_guarded(&mut line, call, address, slot),
            Found::Nothing(place) => self.describe_nothing(&mut line, call, place, address),
            Found::Foreign if self.zones.contains(address) => {
                self.describe_in_zone(&mut line, call, address);
            }
            Found::Foreign => {
                head(&mut line, "invalid free", call, address);
                line.text("not a block of this allocator");
            }
        }
        self.conclude(&mut line);
    }

    /// A large block was missed: something was written before it or behind it.
    #[cold]
    #[inline(never)]
    pub(super) fn missed_large(&self, call: Call, block: &Block, damage: Damage) {
        let mut line = Line::new(self.hide_addresses);
        let (what, place, side) = match damage {
            Damage::Behind(place) => ("heap overflow", place, " behind"),
            Damage::Before(place) => ("heap underflow", place, " before"),
        };
        head(&mut line, what, call, self.large.address(block));
        line.text("byte ").number(place as u64).text(side).text(" this ");
        line.number(block.bytes() as u64)
            .text("-byte block was overwritten (large block, partition ");
        line.number(block.partition() as u64);
        line.text("; call site ").address(block.site()).text(")");
        self.conclude(&mut line);
    }

    /// A slot that is not live was freed.
    #[cold]
    #[inline(never)]
    pub(super) fn freed_twice(&self, slab: &Slab, slot: usize, call: Call) {
        let mut line = Line::new(self.hide_addresses);
        self.describe_slot(&mut line, call, slab, slot);
        self.conclude(&mut line);
    }

    fn describe_slot(&self, line: &mut Line, call: Call, slab: &Slab, slot: usize) {
        let address = slab.base() + slot * slab.size();
        if slab.state(slot) == SlotState::Fresh {
            head(line, "invalid free", call, address);
            line.text("never handed out (").text(tier(slab)).text(" slab, ");
            line.number(slab.size() as u64).text("-byte slot ").number(slot as u64);
            line.text(", partition ").number(slab.partition() as u64);
        } else {
            head(line, "double free", call, address);
            line.text("this ").number(slab.block_bytes(slot) as u64);
            line.text("-byte block is already free");
            line.text(if slab.is_gone(slot) { ", for good (" } else { " (" });
            line.text(tier(slab)).text(" slab, slot ").number(slot as u64);
            line.text(", partition ").number(slab.partition() as u64);
        }
        line.text("; call site ").address(slab.site()).text(")");
    }

    fn describe_inside(
        &self,
        line: &mut Line,
        call: Call,
        slab: &Slab,
        slot: usize,
        inside: usize,
    ) {
        let begin = slab.base() + slot * slab.size();
        head(line, "invalid free", call, begin + inside);
        line.number(inside as u64).text(" bytes inside the ");
        line.number(slab.block_bytes(slot) as u64);
        line.text("-byte block at ").address(begin).text(" (").text(tier(slab));
        line.text(" slab, slot ").number(slot as u64);
        line.text(", partition ").number(slab.partition() as u64);
        line.text(match slab.state(slot) {
            SlotState::Live => ", live",
            SlotState::Fresh => ", never handed out",
            SlotState::Free | SlotState::Remote => ", free",
        });
        line.text("; call site ").address(slab.site()).text(")");
    }

    /// The end of every report, whatever it is of: the line, the rest as `TOFT_REPORT` has it, and
    /// the end of the process.
    pub(super) fn conclude(&self, line: &mut Line) {
        self.conclude_with(line, None);
    }

    /// Concludes with a known stack, where what happened was no call.
    pub(super) fn conclude_with(&self, line: &mut Line, stack: Option<&Stack>) {
        if !self.options.in_silence {
            self.os.report(line.end());
            self.tell_more(line, stack);
        }
        if self.misuses_are_fatal() {
            self.os.abort();
        }
        self.misuses().fetch_add(1, Relaxed);
    }

    pub(super) fn misuses_are_fatal(&self) -> bool {
        !self.options.warn_only
    }
}

/// How every report begins: what is wrong, which call found it, and with what address.
pub(super) fn head(line: &mut Line, what: &'static str, call: Call, address: usize) {
    line.subject = Subject { what, call: call.name(), address, block: None, companion: false };
    line.text("toft: ").text(what).text(": ").text(call.name());
    line.text("(").address(address).text("): ");
}

pub(super) fn tier(slab: &Slab) -> &'static str {
    if slab.class().is_small() { "small" } else { "medium" }
}
