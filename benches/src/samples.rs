//! Measurements of one thing, several times.

/// In the order they were taken.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples(pub Vec<f64>);

impl Samples {
    /// The one in the middle; of an even number, the mean of the two. NaN for none.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            n => (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
        }
    }

    /// The smallest. NaN for none.
    pub fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    /// The largest. NaN for none.
    pub fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert_eq!(Samples(vec![9.0, 1.0, 2.0, 4.0]).median(), 3.0);
        assert_eq!(Samples(vec![9.0, 1.0, 2.0]).median(), 2.0);
        assert!(Samples::default().median().is_nan());
    }
}
