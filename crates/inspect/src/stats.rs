// SPDX-License-Identifier: MIT OR Apache-2.0
//! Order statistics of a handful of samples. Pure functions; called by the report and by the canary.

/// What is quoted of a set of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The middle sample, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// How many samples there were.
    pub count: usize,
}

/// The summary of `samples`; nothing if there are none. Samples that are not finite numbers are left out.
pub fn summarize(samples: &[f64]) -> Option<Summary> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
    Some(Summary { median, min, max, count: sorted.len() })
}

/// The median alone; see [`summarize`].
pub fn median(samples: &[f64]) -> Option<f64> {
    summarize(samples).map(|summary| summary.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_nothing() {
        assert_eq!(summarize(&[]), None);
        assert_eq!(summarize(&[f64::NAN]), None);
    }

    #[test]
    fn odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        let summary = summarize(&[5.0, f64::INFINITY, 1.0]).unwrap();
        assert_eq!((summary.min, summary.max, summary.count), (1.0, 5.0, 2));
    }
}
