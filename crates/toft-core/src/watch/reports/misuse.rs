//! Reports bad calls.
//!
//! A report is one line from a fixed buffer, and then the details (`detail.rs`). The process then
//! ends or goes on. Other checks write their own line: [`head`], then the finding, then
//! [`Reports::conclude`].

use crate::allocator::Found;
use crate::large::{Block, BlockState, Damage};
use crate::os::Os;
use crate::report::{Call, Line, Stack, head};
use crate::slab::{Slab, SlotIndex, SlotState};
use crate::sync::Ordering::Relaxed;
use crate::watch::reports::Reports;

impl<O: Os> Reports<'_, O> {
    /// Reports a call with an address that is not a live block, and describes what is there
    /// instead.
    #[cold]
    #[inline(never)]
    pub fn misused(self, call: Call, address: usize) {
        let mut line = Line::new(self.hide_addresses);
        match self.find(address) {
            Found::Slot(slab, slot) => self.describe_slot(&mut line, call, slab, slot),
            Found::InSlab(slab, offset) => match slab.slot_around(offset) {
                None => {
                    head(&mut line, "invalid free", call, address);
                    line.text("not a block of this allocator");
                }
                Some(slot) => {
                    self.describe_inside(&mut line, call, slab, slot, offset % slab.size());
                }
            },
            Found::Large(block) => {
                head(&mut line, "double free", call, address);
                line.text("this ").number(block.bytes() as u64).text("-byte block is already free");
                line.text(" (large block, partition ").number(block.partition().number() as u64);
                line.text("; call site ").address(block.site().address()).text(")");
            }
            Found::InLarge(block) => {
                let begin = self.large.placement().address(block);
                head(&mut line, "invalid free", call, address);
                line.number(address.abs_diff(begin) as u64);
                line.text(if address < begin {
                    " bytes before the "
                } else {
                    " bytes inside the "
                });
                line.number(block.bytes() as u64).text("-byte block at ").address(begin);
                line.text(" (large block, partition ").number(block.partition().number() as u64);
                let live = block.state() == BlockState::Live;
                line.text(if live { ", live" } else { ", free" });
                line.text("; call site ").address(block.site().address()).text(")");
            }
            Found::Guarded(slot) => self.describe_guarded(&mut line, call, address, slot),
            Found::ZeroSize(place) => self.describe_zero_size(&mut line, call, place, address),
            Found::Foreign => {
                if !(self.hook.foreign_address)(&mut line, call, address) {
                    head(&mut line, "invalid free", call, address);
                    line.text("not a block of this allocator");
                }
            }
        }
        self.conclude(&mut line);
    }

    /// Reports a write before or after a large block.
    #[cold]
    #[inline(never)]
    pub(crate) fn missed_large(self, call: Call, block: &Block, damage: Damage) {
        let mut line = Line::new(self.hide_addresses);
        let (what, place, side) = match damage {
            Damage::Behind(place) => ("heap overflow", place, " behind"),
            Damage::Before(place) => ("heap underflow", place, " before"),
        };
        head(&mut line, what, call, self.large.placement().address(block));
        line.text("byte ").number(place as u64).text(side).text(" this ");
        line.number(block.bytes() as u64)
            .text("-byte block was overwritten (large block, partition ");
        line.number(block.partition().number() as u64);
        line.text("; call site ").address(block.site().address()).text(")");
        self.conclude(&mut line);
    }

    /// Reports the free of a slot that is not live.
    #[cold]
    #[inline(never)]
    pub(crate) fn freed_twice(self, slab: &Slab, slot: SlotIndex, call: Call) {
        let mut line = Line::new(self.hide_addresses);
        self.describe_slot(&mut line, call, slab, slot);
        self.conclude(&mut line);
    }

    fn describe_slot(self, line: &mut Line, call: Call, slab: &Slab, slot: SlotIndex) {
        let address = slab.slot_address(slot);
        if slab.state(slot) == SlotState::Fresh {
            head(line, "invalid free", call, address);
            line.text("never handed out (").text(tier(slab)).text(" slab, ");
            line.number(slab.size() as u64).text("-byte slot ").number(slot.number() as u64);
            line.text(", partition ").number(slab.partition().number() as u64);
        } else {
            head(line, "double free", call, address);
            line.text("this ").number(slab.block_bytes(slot) as u64);
            line.text("-byte block is already free");
            line.text(if slab.is_permanently_freed(slot) { ", for good (" } else { " (" });
            line.text(tier(slab)).text(" slab, slot ").number(slot.number() as u64);
            line.text(", partition ").number(slab.partition().number() as u64);
        }
        line.text("; call site ").address(slab.site().address()).text(")");
    }

    fn describe_inside(
        self,
        line: &mut Line,
        call: Call,
        slab: &Slab,
        slot: SlotIndex,
        inside: usize,
    ) {
        let begin = slab.slot_address(slot);
        head(line, "invalid free", call, begin + inside);
        line.number(inside as u64).text(" bytes inside the ");
        line.number(slab.block_bytes(slot) as u64);
        line.text("-byte block at ").address(begin).text(" (").text(tier(slab));
        line.text(" slab, slot ").number(slot.number() as u64);
        line.text(", partition ").number(slab.partition().number() as u64);
        line.text(match slab.state(slot) {
            SlotState::Live => ", live",
            SlotState::Fresh => ", never handed out",
            SlotState::Free | SlotState::Remote => ", free",
        });
        line.text("; call site ").address(slab.site().address()).text(")");
    }

    /// Returns an empty line, for a report.
    pub fn line(self) -> Line {
        Line::new(self.hide_addresses)
    }

    /// Ends a report: writes the line, adds the details that `TOFT_REPORT` selects, and ends the
    /// process or counts the misuse.
    pub fn conclude(self, line: &mut Line) {
        self.conclude_with(line, None);
    }

    /// Ends a report with a known stack, for an event that was no call.
    pub(crate) fn conclude_with(self, line: &mut Line, stack: Option<&Stack>) {
        if !self.options.in_silence {
            self.os.report(line.end());
            self.report_details(line, stack);
        }
        if self.misuses_are_fatal() {
            self.os.abort();
        }
        self.misuses().fetch_add(1, Relaxed);
    }

    /// Lets the crates above write what else is known, unless a test has the allocator.
    #[cold]
    #[inline(never)]
    fn report_details(self, line: &Line, stack: Option<&Stack>) {
        if self.thread_body.is_some() {
            (self.hook.reported)(line, stack);
        }
    }

    pub(crate) fn misuses_are_fatal(self) -> bool {
        !self.options.warn_only
    }
}

pub(crate) fn tier(slab: &Slab) -> &'static str {
    if slab.class().is_small() { "small" } else { "medium" }
}
