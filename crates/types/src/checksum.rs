//! CRC-32C (Castagnoli, as in iSCSI): the checksum of BP trailers, layouts and journals. The processor's
//! own instructions compute it where it has them.

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC-32C of bytes that come in pieces.
pub struct Crc32c {
    digest: crc_fast::Digest,
    /// Number of bytes in `digest`.
    length: u64,
    /// Checksum of all bytes before them.
    before: u32,
}

impl Crc32c {
    /// Of no bytes yet.
    pub fn new() -> Crc32c {
        Crc32c { digest: crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi), length: 0, before: 0 }
    }

    /// Adds a piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.length += bytes.len() as u64;
    }

    /// Adds `count` zeros.
    ///
    /// # Cost
    /// As [`combined`].
    pub fn update_zeros(&mut self, count: u64) {
        let before = !shifted(!self.finish(), count);
        *self = Crc32c { before, ..Crc32c::new() };
    }

    /// The checksum of all pieces.
    pub fn finish(&self) -> u32 {
        match self.before {
            0 => self.digest.finalize() as u32,
            before => combined(before, self.digest.finalize() as u32, self.length),
        }
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
pub fn shifted(mut remainder: u32, count: u64) -> u32 {
    let mut left = count;
    while left != 0 {
        // A byte is 2^3 bits.
        remainder = multiplied(POWERS[(left.trailing_zeros() as usize + 3) % POWERS.len()], remainder);
        left &= left - 1;
    }
    remainder
}

impl Default for Crc32c {
    fn default() -> Self {
        Crc32c::new()
    }
}

/// CRC-32C of bytes in two parts: of the first, of the second, and how long this is.
///
/// # Cost
/// At most 64 multiplications, one per bit of the length: 0.04 to 3 us. (`checksum_combine` of `crc-fast` 1.10 squares matrices: 40 to 250 us, and an
/// output combines several checksums.)
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
            let (length, first, second) = (draw() >> (n % 64), draw() as u32, draw() as u32);
            let by_library =
                crc_fast::checksum_combine(crc_fast::CrcAlgorithm::Crc32Iscsi, first.into(), second.into(), length);
            assert_eq!(u64::from(combined(first, second, length)), by_library, "{first} {second} {length}");
        }
    }
}
