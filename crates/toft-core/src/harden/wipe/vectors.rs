//! Steps of four vectors, on x86-64. A step has 64 bytes, which every processor supports, or 128.
//!
//! The steps are in assembly for two reasons. The compiler turns a row of stores into a call of
//! `memset`, and Rust has no atomic load of a vector. Other threads may write by mistake to memory
//! that is read here. Each byte that is read is one that the memory has held.

/// Makes the four instructions of a step, for each of some places. Its arguments are the offsets of
/// the last three, the text before each, and the text after each.
macro_rules! step {
    ($o1:literal $o2:literal $o3:literal, $a:literal $b:literal $c:literal $d:literal, $behind:literal: $($at:literal),*) => {
        concat!($(
            $a, " ptr [", $at, "]", $behind, "\n",
            $b, " ptr [", $at, " + ", $o1, "]", $behind, "\n",
            $c, " ptr [", $at, " + ", $o2, "]", $behind, "\n",
            $d, " ptr [", $at, " + ", $o3, "]", $behind, "\n",
        )*)
    };
}

/// Instructions on vectors of 16 bytes.
macro_rules! xmm {
    (zero) => { "pxor xmm0, xmm0" };
    (store $($at:literal),*) => {
        step!("16" "32" "48", "movaps xmmword" "movaps xmmword" "movaps xmmword" "movaps xmmword", ", xmm0": $($at),*)
    };
    (load $at:literal) => {
        step!("16" "32" "48", "movdqa xmm0, xmmword" "movdqa xmm1, xmmword" "por xmm0, xmmword" "por xmm1, xmmword", "": $at)
    };
    (or $($at:literal),*) => {
        step!("16" "32" "48", "por xmm0, xmmword" "por xmm1, xmmword" "por xmm0, xmmword" "por xmm1, xmmword", "": $($at),*)
    };
    (fill) => { "movq xmm2, {word}\npunpcklqdq xmm2, xmm2\npxor xmm0, xmm0\npxor xmm1, xmm1" };
    (differ $at:literal) => { concat!("movdqa xmm3, xmmword ptr [", $at, "]\npxor xmm3, xmm2\npor xmm0, xmm3") };
    (which) => { "por xmm0, xmm1\npxor xmm1, xmm1\npcmpeqb xmm0, xmm1\npmovmskb {zeros:e}, xmm0" };
}

/// The instructions for vectors of 32 bytes. The zero register is made as a short one. The
/// processor then does not count its upper half as in use, and it needs no `vzeroupper`.
macro_rules! ymm {
    (zero) => { "vpxor xmm0, xmm0, xmm0" };
    (store $($at:literal),*) => {
        step!("32" "64" "96", "vmovdqu ymmword" "vmovdqu ymmword" "vmovdqu ymmword" "vmovdqu ymmword", ", ymm0": $($at),*)
    };
    (load $at:literal) => {
        step!("32" "64" "96", "vmovdqu ymm0, ymmword" "vmovdqu ymm1, ymmword" "vpor ymm0, ymm0, ymmword"
            "vpor ymm1, ymm1, ymmword", "": $at)
    };
    (or $($at:literal),*) => {
        step!("32" "64" "96", "vpor ymm0, ymm0, ymmword" "vpor ymm1, ymm1, ymmword" "vpor ymm0, ymm0, ymmword"
            "vpor ymm1, ymm1, ymmword", "": $($at),*)
    };
    (fill) => { "vmovq xmm2, {word}\nvpbroadcastq ymm2, xmm2\nvpxor xmm0, xmm0, xmm0\nvpxor xmm1, xmm1, xmm1" };
    (differ $at:literal) => { concat!("vpxor ymm3, ymm2, ymmword ptr [", $at, "]\nvpor ymm0, ymm0, ymm3") };
    (which) => {
        "vpor ymm0, ymm0, ymm1\nvpxor xmm1, xmm1, xmm1\nvpcmpeqb ymm0, ymm0, ymm1\nvpmovmskb {zeros:e}, ymm0\nvzeroupper"
    };
    // `or_middle` and `store_middle` handle a vector in the middle, where the steps from both ends
    // may not meet. `any` sets the zero flag if all is zero, and makes the first register zero.
    (or_middle) => { "vpor ymm0, ymm0, ymmword ptr [{at} + 496]" };
    (store_middle) => { "vmovdqu ymmword ptr [{at} + 496], ymm0" };
    (any) => { "vpor ymm0, ymm0, ymm1\nvptest ymm0, ymm0\nvzeroupper\nvpxor xmm0, xmm0, xmm0" };
}

/// Makes the functions for vectors of one kind.
macro_rules! by_vectors {
    ($vectors:ident, $bytes:literal) => {
        /// The number of bytes of a step.
        const STEP: usize = 4 * $bytes;
        /// One bit for each byte of a vector.
        const ALL: u32 = u32::MAX >> (32 - $bytes);

        /// Clears one step or more, in a loop.
        ///
        /// # Safety
        /// 1. The range is mapped, and only the caller uses it; both ends are multiples of 16.
        /// 2. The processor has such vectors.
        #[inline(always)]
        pub unsafe fn clear(address: usize, len: usize) {
            debug_assert!(len >= STEP);
            // SAFETY: duties 1 and 2: every store is within the range, and has the alignment that
            // it needs.
            unsafe {
                core::arch::asm!(
                    $vectors!(zero),
                    "2:",
                    $vectors!(store "{at}"),
                    "add {at}, {step}",
                    "cmp {at}, {last}",
                    "jb 2b",
                    $vectors!(store "{last}"),
                    at = inout(reg) address => _,
                    last = in(reg) address + len - STEP,
                    step = const STEP,
                    out("xmm0") _,
                    options(nostack),
                );
            }
        }

        /// Returns true if one step or more is zero, in a loop.
        ///
        /// # Safety
        /// 1. As for `clear`, but other threads may write to it: then the result may be either.
        /// 2. As for `clear`.
        #[inline(always)]
        pub unsafe fn is_zero(address: usize, len: usize) -> bool {
            debug_assert!(len >= STEP);
            let zeros: u32;
            // SAFETY: duties 1 and 2, as in `clear`, of loads.
            unsafe {
                core::arch::asm!(
                    $vectors!(load "{last}"),
                    "2:",
                    $vectors!(or "{at}"),
                    "add {at}, {step}",
                    "cmp {at}, {last}",
                    "jb 2b",
                    $vectors!(which),
                    at = inout(reg) address => _,
                    last = in(reg) address + len - STEP,
                    step = const STEP,
                    zeros = lateout(reg) zeros,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack, readonly),
                );
            }
            zeros == ALL
        }

        /// Returns true if one vector or more repeats a word.
        ///
        /// # Safety
        /// 1. As for `is_zero`.
        /// 2. As for `clear`.
        #[inline(always)]
        pub unsafe fn is_filled(address: usize, len: usize, word: u64) -> bool {
            debug_assert!(len >= $bytes);
            let zeros: u32;
            // SAFETY: duties 1 and 2, as in `is_zero`. The last vector is two or four repetitions
            // of the word too.
            unsafe {
                core::arch::asm!(
                    $vectors!(fill),
                    "2:",
                    $vectors!(differ "{at}"),
                    "add {at}, {step}",
                    "cmp {at}, {last}",
                    "jb 2b",
                    $vectors!(differ "{last}"),
                    $vectors!(which),
                    at = inout(reg) address => _,
                    last = in(reg) address + len - $bytes,
                    word = in(reg) word,
                    step = const $bytes,
                    zeros = lateout(reg) zeros,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack, readonly),
                );
            }
            zeros == ALL
        }
    };
}

/// The functions for vectors of 16 bytes.
pub mod short {
    by_vectors!(xmm, 16);

    /// Clears less than a step, by three vectors.
    ///
    /// # Safety
    /// 1. As for `clear`, of 16 to 48 bytes.
    #[inline(always)]
    pub unsafe fn clear_little(address: usize, len: usize) {
        // SAFETY: duty 1, as in `clear`.
        unsafe {
            core::arch::asm!(
                "pxor {zero}, {zero}",
                "movaps xmmword ptr [{first}], {zero}",
                "movaps xmmword ptr [{middle}], {zero}",
                "movaps xmmword ptr [{last}], {zero}",
                first = in(reg) address,
                middle = in(reg) address + middle_of(len),
                last = in(reg) address + len - 16,
                zero = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Returns true if less than a step is zero.
    ///
    /// # Safety
    /// 1. As for `is_zero`, of 16 to 48 bytes.
    #[inline(always)]
    pub unsafe fn is_zero_little(address: usize, len: usize) -> bool {
        let zeros: u32;
        // SAFETY: duty 1, as in `is_zero`.
        unsafe {
            core::arch::asm!(
                "movdqa {any}, xmmword ptr [{first}]",
                "por {any}, xmmword ptr [{middle}]",
                "por {any}, xmmword ptr [{last}]",
                "pxor {zero}, {zero}",
                "pcmpeqb {any}, {zero}",
                "pmovmskb {zeros:e}, {any}",
                first = in(reg) address,
                middle = in(reg) address + middle_of(len),
                last = in(reg) address + len - 16,
                any = out(xmm_reg) _,
                zero = out(xmm_reg) _,
                zeros = lateout(reg) zeros,
                options(nostack, readonly, preserves_flags),
            );
        }
        zeros == ALL
    }

    /// Returns the offset of the middle one of one to three vectors.
    #[inline(always)]
    fn middle_of(len: usize) -> usize {
        len >> 1 & !15
    }
}

/// The functions for vectors of 32 bytes, if the processor has them.
pub mod long {
    by_vectors!(ymm, 32);

    /// Clears half a step up to one step.
    ///
    /// # Safety
    /// 1. As for `clear`, of 64 to 128 bytes.
    /// 2. As for `clear`.
    #[inline(always)]
    pub unsafe fn clear_little(address: usize, len: usize) {
        // SAFETY: duties 1 and 2, as in `clear`.
        unsafe {
            core::arch::asm!(
                ymm!(zero),
                "vmovdqu ymmword ptr [{at}], ymm0",
                "vmovdqu ymmword ptr [{at} + 32], ymm0",
                "vmovdqu ymmword ptr [{end} - 64], ymm0",
                "vmovdqu ymmword ptr [{end} - 32], ymm0",
                at = in(reg) address,
                end = in(reg) address + len,
                out("xmm0") _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Returns true if half a step up to one step is zero. Of more bytes, the first and the last
    /// half step are read.
    ///
    /// # Safety
    /// 1. As for `is_zero`, of at least 64 bytes.
    /// 2. As for `clear`.
    #[inline(always)]
    pub unsafe fn is_zero_little(address: usize, len: usize) -> bool {
        // SAFETY: duties 1 and 2, as in `is_zero`.
        unsafe {
            core::arch::asm!(
                "vmovdqu ymm0, ymmword ptr [{at}]",
                "vpor ymm0, ymm0, ymmword ptr [{at} + 32]",
                "vpor ymm0, ymm0, ymmword ptr [{end} - 64]",
                "vpor ymm0, ymm0, ymmword ptr [{end} - 32]",
                "vptest ymm0, ymm0",
                "vzeroupper",
                "jnz {differs}",
                at = in(reg) address,
                end = in(reg) address + len,
                differs = label { return false },
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack, readonly),
            );
        }
        true
    }

    /// Clears one step up to eight, without a loop. If there are more than two steps, the bytes
    /// between the first and the last are read first. They are written only if they are not zero
    /// yet. Much of a large block is often never used, and lines that were only read need not be
    /// written to memory again.
    ///
    /// # Safety
    /// 1. As for `clear`, of 128 to 1040 bytes.
    /// 2. As for `clear`.
    #[inline(always)]
    pub unsafe fn clear_both_ends(address: usize, len: usize) {
        // SAFETY: duties 1 and 2, as in `clear`. If the middle is short, the reads extend into the
        // first step.
        unsafe {
            core::arch::asm!(
                "prefetchw [{at} + 64]",
                "prefetchw [{end} - 128]",
                "cmp {len}, 256",
                "jbe 5f",
                ymm!(load "{at} + 128"),
                "cmp {len}, 512",
                "ja 3f",
                ymm!(or "{end} - 256"),
                ymm!(any),
                "jz 5f",
                ymm!(store "{at} + 128", "{end} - 256"),
                "jmp 5f",
                "3:",
                ymm!(or "{at} + 256", "{at} + 384", "{end} - 512", "{end} - 384", "{end} - 256"),
                ymm!(or_middle),
                ymm!(any),
                "jz 5f",
                ymm!(store_middle),
                ymm!(store "{at} + 128", "{at} + 256", "{at} + 384", "{end} - 512", "{end} - 384", "{end} - 256"),
                "5:",
                ymm!(zero),
                ymm!(store "{at}", "{end} - 128"),
                at = in(reg) address,
                end = in(reg) address + len,
                len = in(reg) len,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack),
            );
        }
    }

    /// Returns true if one step up to eight steps are zero, without a loop.
    ///
    /// # Safety
    /// 1. As for `is_zero`, of 128 to 1040 bytes.
    /// 2. As for `clear`.
    #[inline(always)]
    pub unsafe fn is_zero_at_both_ends(address: usize, len: usize) -> bool {
        let zeros: u32;
        // SAFETY: duties 1 and 2, as in `is_zero`.
        unsafe {
            core::arch::asm!(
                ymm!(load "{at}"),
                "cmp {len}, 256",
                "jbe 4f",
                "cmp {len}, 512",
                "jbe 3f",
                ymm!(or "{at} + 256", "{at} + 384", "{end} - 512", "{end} - 384"),
                ymm!(or_middle),
                "3:",
                ymm!(or "{at} + 128", "{end} - 256"),
                "4:",
                ymm!(or "{end} - 128"),
                ymm!(which),
                at = in(reg) address,
                end = in(reg) address + len,
                len = in(reg) len,
                zeros = lateout(reg) zeros,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack, readonly),
            );
        }
        zeros == ALL
    }
}
