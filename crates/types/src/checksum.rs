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
    /// Some microseconds, whatever the count.
    pub fn update_zeros(&mut self, count: u64) {
        let before = combined(self.finish(), zeros(count), count);
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

/// CRC-32C of `count` zeros, from those of the powers of two that make up the count.
fn zeros(count: u64) -> u32 {
    let (mut sum, mut length) = (0, 0);
    let (mut power, mut power_length) = (crc32c(&[0]), 1u64);
    loop {
        if count & power_length != 0 {
            (sum, length) = (combined(sum, power, power_length), length + power_length);
        }
        if length == count {
            return sum;
        }
        power = combined(power, power, power_length);
        power_length <<= 1;
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Crc32c::new()
    }
}

/// CRC-32C of bytes in two parts: of the first, of the second, and how long this is.
pub fn combined(first: u32, second: u32, second_length: u64) -> u32 {
    let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
    crc_fast::checksum_combine(algorithm, first.into(), second.into(), second_length) as u32
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
            assert_eq!(zeros(count), crc32c(&vec![0; count as usize]), "{count}");
        }
        let half = zeros(1 << 62);
        assert_eq!(zeros(1 << 63), combined(half, half, 1 << 62));
    }
}
