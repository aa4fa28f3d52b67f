//! CRC-32C (Castagnoli, as in iSCSI): the checksum of BP trailers, layouts and journals. The processor's
//! own instructions compute it where it has them: those for CRC-32C (the crate `crc32c`), or, for long pieces, carry-less multiplication
//! of registers of 64 bytes ([`folding`]).

#[cfg(target_arch = "x86_64")]
pub mod folding;

/// Pieces of at least this many bytes are folded, where the processor can do it.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 2048;

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    appended(0, bytes)
}

/// CRC-32C of bytes with the checksum `crc`, and of `bytes` behind them.
pub fn appended(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= LONG && folding::wide_is_here() {
        // SAFETY: the processor has the instructions.
        #[allow(unsafe_code)]
        return unsafe { folding::wide(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

/// CRC-32C of bytes that come in pieces.
#[derive(Debug, Clone, Copy, Default)]
pub struct Crc32c(u32);

impl Crc32c {
    /// Of no bytes yet.
    pub fn new() -> Crc32c {
        Crc32c(0)
    }

    /// Adds a piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = appended(self.0, bytes);
    }

    /// Adds `count` zeros.
    ///
    /// # Cost
    /// As [`combined`].
    pub fn update_zeros(&mut self, count: u64) {
        self.0 = !shifted(!self.0, count);
    }

    /// The checksum of all pieces.
    pub fn finish(&self) -> u32 {
        self.0
    }
}

/// The polynomial, bits reversed: bit 31 is the coefficient of x^0.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// x^(2^n) modulo the polynomial. They repeat after 31: x^(2^31 - 1) is 1.
const POWERS: [u32; 31] = {
    let mut powers = [0; 31];
    let (mut power, mut n) = (1 << 30, 0);
    while n < 31 {
        powers[n] = power;
        (power, n) = (multiplied(power, power), n + 1);
    }
    powers
};

/// The product of two polynomials, modulo the polynomial.
const fn multiplied(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = if b & 1 != 0 { (b >> 1) ^ POLYNOMIAL } else { b >> 1 };
        bit >>= 1;
    }
    product
}

/// x^`exponent` modulo the polynomial, bits reversed: bit 31 is the coefficient of x^0.
pub const fn power(exponent: u32) -> u32 {
    let (mut product, mut left) = (1 << 31, exponent);
    while left != 0 {
        product = multiplied(POWERS[left.trailing_zeros() as usize % POWERS.len()], product);
        left &= left - 1;
    }
    product
}

/// A remainder times x^(8 `count`): what `count` zero bytes make of it.
///
/// # Cost
/// As [`combined`].
pub const fn shifted(mut remainder: u32, count: u64) -> u32 {
    let mut left = count;
    while left != 0 {
        // A byte is 2^3 bits.
        remainder = multiplied(POWERS[(left.trailing_zeros() as usize + 3) % POWERS.len()], remainder);
        left &= left - 1;
    }
    remainder
}

/// CRC-32C of bytes in two parts: of the first, of the second, and how long this is.
///
/// # Cost
/// At most 64 multiplications, one per bit of the length: 0.04 to 3 us.
pub fn combined(first: u32, second: u32, second_length: u64) -> u32 {
    shifted(first, second_length) ^ second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let mut pieces = Crc32c::new();
        pieces.update(b"1234");
        pieces.update(b"56789");
        assert_eq!(pieces.finish(), 0xe306_9283);
        assert_eq!(combined(crc32c(b"1234"), crc32c(b"56789"), 5), 0xe306_9283);
        assert_eq!(combined(crc32c(b"1234"), crc32c(b""), 0), crc32c(b"1234"));
    }

    #[test]
    fn pieces_of_any_length_are_added_as_by_the_library() {
        let bytes: Vec<u8> = (0..70_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for length in (0..600).chain([1023, 2047, 2048, 2049, 4095, 4096, 65_536, 70_000]) {
            for start in [0, 1, 300] {
                let (head, tail) = bytes[..length].split_at(start.min(length));
                assert_eq!(appended(crc32c(head), tail), crc32c::crc32c(&bytes[..length]), "{length} from {start}");
            }
        }
    }

    #[test]
    fn zeros_are_added_without_reading_them() {
        for count in [0, 1, 2, 3, 255, 4096, 1_000_003] {
            let (mut sum, mut read) = (Crc32c::new(), Crc32c::new());
            for piece in [&b"head"[..], b"", b"tail"] {
                sum.update(piece);
                sum.update_zeros(count);
                read.update(piece);
                read.update(&vec![0; count as usize]);
            }
            assert_eq!(sum.finish(), read.finish(), "{count}");
        }
        let zeros = |count: u64| {
            let mut sum = Crc32c::new();
            sum.update_zeros(count);
            sum.finish()
        };
        for length in [1 << 40, 1 << 60, 1 << 61, 1 << 62] {
            assert_eq!(zeros(2 * length), combined(zeros(length), zeros(length), length), "{length}");
        }
    }

    #[test]
    fn parts_of_any_length_are_combined_as_the_library_does() {
        let mut number = 7u64;
        let mut draw = || {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            number ^ (number >> 33)
        };
        for n in 0..200 {
            // No bytes have no checksum but 0.
            let (length, first, second) = ((draw() >> (n % 64)).max(1), draw() as u32, draw() as u32);
            let by_library = crc32c::crc32c_combine(first, second, length as usize);
            assert_eq!(combined(first, second, length), by_library, "{first} {second} {length}");
        }
    }
}
