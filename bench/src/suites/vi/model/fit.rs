// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line through points.

use serde::Serialize;

/// `y = intercept + slope * x`: in a report, the time of long messages by their size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Line {
    /// Where it crosses x = 0.
    #[serde(rename = "long_ns_per_message")]
    pub intercept: f64,
    /// Growth of y with x.
    #[serde(rename = "long_ns_per_byte")]
    pub slope: f64,
}

/// The line with the least sum of squared relative errors, so that the long messages do not decide
/// alone; nothing for fewer than two different x.
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    let usable = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite() && *y > 0.0);
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(x, y) in usable {
        let weight = 1.0 / (y * y);
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let determinant = w * wxx - wx * wx;
    // Relative to its terms: for one x alone it is nothing but rounding.
    if determinant.abs() <= 1e-12 * (w * wxx).abs() || determinant == 0.0 {
        return None;
    }
    let slope = (w * wxy - wx * wy) / determinant;
    Some(Line { intercept: (wy - slope * wx) / w, slope })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_give_that_line() {
        let points: Vec<(f64, f64)> = [65536.0, 131_072.0, 1_048_576.0].into_iter().map(|x| (x, 200.0 + 0.02 * x)).collect();
        let found = line(&points).unwrap();
        assert!((found.slope - 0.02).abs() < 1e-9 && (found.intercept - 200.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn one_point_is_no_line() {
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[(5.0, 1.0), (5.0, 2.0)]), None);
        assert_eq!(line(&[(5.0, 1.0), (f64::NAN, 2.0)]), None);
    }
}
