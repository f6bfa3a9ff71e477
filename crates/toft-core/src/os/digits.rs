//! Numbers as text, for code that must not allocate or panic.

/// Returns a number in digits of a base of at least 10 and at most 16, without leading zeros. The
/// text is the end of `buffer`.
#[inline(never)]
pub fn digits(mut number: u64, base: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut first = buffer.len();
    for place in buffer.iter_mut().rev() {
        let digit = (number % base.max(1)) as u8;
        *place = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
        first -= 1;
        number /= base.max(1);
        if number == 0 {
            break;
        }
    }
    buffer.get(first..).unwrap_or(&[])
}
