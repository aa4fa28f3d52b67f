//! Bytes of any type, always the same for the same seed.

use thalweg_types::ElementType;

/// Numbers that look like chance and repeat. Source: Steele, Lea, Flood, OOPSLA 2014 (SplitMix64).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// Begun by a text.
    pub fn new(seed: &str) -> Chance {
        Chance(seed.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`; 0 where `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.bits() % n }
    }
}

/// `n` values of a type, of moderate size and all finite: whole numbers over their full range (up to 2^40), others with
/// fractions that every type holds exactly.
pub fn plain(element: ElementType, seed: &str, n: u64) -> Vec<u8> {
    let mut chance = Chance::new(seed);
    let mut out = Vec::with_capacity((n * element.size()) as usize);
    let fraction = |chance: &mut Chance| (chance.below(20_001) as f64 - 10_000.0) / 16.0;
    for _ in 0..n {
        match element {
            ElementType::F32 => out.extend((fraction(&mut chance) as f32).to_ne_bytes()),
            ElementType::F64 => out.extend(fraction(&mut chance).to_ne_bytes()),
            ElementType::Complex => {
                (0..2).for_each(|_| out.extend((fraction(&mut chance) as f32).to_ne_bytes()));
            }
            ElementType::DoubleComplex => (0..2).for_each(|_| out.extend(fraction(&mut chance).to_ne_bytes())),
            ElementType::LongDouble => out.extend(long_double(fraction(&mut chance))),
            ElementType::I64 | ElementType::U64 => out.extend((chance.bits() >> 24).to_ne_bytes()),
            _ => out.extend(&chance.bits().to_ne_bytes()[..element.size() as usize]),
        }
    }
    out
}

/// `n` values of any bits at all: NaN of every kind, the largest and smallest numbers.
pub fn any(element: ElementType, seed: &str, n: u64) -> Vec<u8> {
    let mut chance = Chance::new(seed);
    let mut out = Vec::new();
    let length = (n * element.size()) as usize;
    while out.len() < length {
        let bits = match chance.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => f64::INFINITY.to_bits(),
            _ => chance.bits(),
        };
        out.extend(bits.to_ne_bytes());
    }
    out.truncate(length);
    out
}

/// A double as an x86 extended number, without going through anything the library does: zero, or a normal number.
pub fn long_double(value: f64) -> [u8; 16] {
    let mut out = [0; 16];
    if value != 0.0 {
        let exponent = value.abs().log2().floor();
        let mantissa = (value.abs() / exponent.exp2() * (1u64 << 62) as f64) as u64 * 2;
        let sign = if value < 0.0 { 0x8000 } else { 0 };
        out[..8].copy_from_slice(&mantissa.to_ne_bytes());
        out[8..10].copy_from_slice(&((exponent as i32 + 16383) as u16 | sign).to_ne_bytes());
    }
    out
}
