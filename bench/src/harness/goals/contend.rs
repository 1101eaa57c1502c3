// SPDX-License-Identifier: MIT OR Apache-2.0
//! What many clients of one server are to have.

use super::{Bound, Goal, Side};
use crate::contend::{Experiment, Point};

/// From so many clients on the rate is to stay.
const SOME: usize = 4;

/// The goals of each experiment that was measured.
pub fn evaluate_contention(points: &[Point]) -> Vec<Goal> {
    Experiment::ALL.iter().flat_map(|experiment| evaluate(*experiment, points)).collect()
}

fn evaluate(experiment: Experiment, points: &[Point]) -> Vec<Goal> {
    let of: Vec<&Point> = points.iter().filter(|point| point.experiment == experiment).collect();
    let side = |value: f64, name: String| Some(Side::one(value, name));
    let with = |clients: usize| of.iter().find(|point| point.clients == clients).and_then(|point| side(point.rate, format!("{clients} clients")));
    let many = of.iter().filter(|point| point.clients >= SOME).min_by(|a, b| a.rate.total_cmp(&b.rate));
    let least = |point: &&&Point| side(point.rate, String::new());
    let mut goals = Vec::new();
    if let Some(many) = many {
        for (clients, share) in [(SOME, 0.8), (2, 0.5)] {
            let what = format!("{}: all, {} clients", experiment.title(), many.clients);
            goals.push(Goal::new(what, "msg/s", least(&many), with(clients), Bound::AtLeast(share)));
        }
    }
    if let Some(unfair) = of.iter().min_by(|a, b| a.slowest.total_cmp(&b.slowest)) {
        let share = unfair.rate / unfair.clients as f64;
        let what = format!("{}: slowest of {} clients", experiment.title(), unfair.clients);
        goals.push(Goal::new(what, "msg/s", side(unfair.slowest * share, String::new()), side(share, "equal share".to_owned()), Bound::AtLeast(0.5)));
    }
    goals.retain(Goal::has_both);
    goals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_rate_and_the_slowest_client_count() {
        let point = |clients: usize, rate: f64, slowest: f64| Point {
            experiment: Experiment::Networks,
            clients,
            rate,
            rates: vec![],
            slowest,
            jain: 1.0,
            response_median_ns: 1.0,
            response_p99_ns: 2.0,
        };
        let goals = evaluate_contention(&[point(2, 9e6, 1.0), point(4, 8e6, 0.9), point(16, 6e6, 0.4), point(64, 7e6, 0.95)]);
        let found: Vec<(Option<f64>, Option<bool>)> = goals.iter().map(|goal| (goal.ratio, goal.met)).collect();
        assert_eq!(found.len(), 3);
        assert_eq!((found[0], found[1].1), ((Some(0.75), Some(false)), Some(true)));
        assert!(found[2].0.is_some_and(|ratio| (ratio - 0.4).abs() < 1e-9) && found[2].1 == Some(false));
    }
}
