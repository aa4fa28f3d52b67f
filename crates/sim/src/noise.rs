//! Variation between processes and between targets: pseudorandom numbers, reproducible by seed.
//!
//! A draw is a function of the seed, its subject and its owner, not of the order of events. So two methods meet the same slow targets,
//! and a rank stalls in both alike.

/// The subject of a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum What {
    /// Whether a write stalls.
    Stalls = 1,
    /// For how long.
    Stall = 2,
    /// How much longer or shorter than others a write takes.
    Jitter = 3,
    /// Load of others on a target.
    Background = 4,
    /// Which targets are slow.
    Slow = 5,
}

/// The source of all draws of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noise {
    seed: u64,
}

impl Noise {
    /// The same seed gives the same draws.
    pub fn new(seed: u64) -> Noise {
        Noise { seed }
    }

    /// A number from 0 to below 1, for the `attempt`-th request about `whom`.
    pub fn draw(self, what: What, whom: u64, attempt: u64) -> f64 {
        let mut bits = mix(self.seed ^ mix(what as u64));
        bits = mix(bits ^ mix(whom.wrapping_add(0x51)));
        bits = mix(bits ^ mix(attempt.wrapping_add(0xA7)));
        // A double represents 53 bits exactly.
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The mixing step of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_follow_the_seed_alone() {
        let noise = Noise::new(7);
        let draws: Vec<f64> = (0..100_000).map(|rank| noise.draw(What::Stalls, rank, 0)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        let few = draws.iter().filter(|d| **d < 0.01).count();
        assert!((900..1100).contains(&few), "{few}");
        assert_eq!(noise.draw(What::Jitter, 3, 1), Noise::new(7).draw(What::Jitter, 3, 1));
        assert_ne!(noise.draw(What::Jitter, 3, 1), Noise::new(8).draw(What::Jitter, 3, 1));
        assert_ne!(noise.draw(What::Jitter, 3, 1), noise.draw(What::Jitter, 3, 2));
    }
}
