//! Changes of the goodput over successive runs of the same measurement.

/// A change between two successive runs whose 90 % intervals do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shift {
    /// Index of the last run before the change that has an interval.
    pub before: usize,
    /// Index of the first run after it.
    pub after: usize,
}

/// Returns the changes between successive runs, given the 90 % interval of each; `None` for a run without one, which is passed over.
///
/// Two intervals that overlap show no change. A slow drift, in which each run overlaps the one before it, is not found.
pub fn shifts(intervals: &[Option<[f64; 2]>]) -> Vec<Shift> {
    let known: Vec<(usize, [f64; 2])> =
        intervals.iter().enumerate().filter_map(|(i, ends)| Some((i, (*ends)?))).collect();
    let apart = |a: [f64; 2], b: [f64; 2]| a[1] < b[0] || b[1] < a[0];
    let pairs = known.windows(2).filter(|pair| apart(pair[0].1, pair[1].1));
    pairs.map(|pair| Shift { before: pair[0].0, after: pair[1].0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_intervals_that_do_not_overlap_show_a_change() {
        let of =
            |all: &[Option<[f64; 2]>]| shifts(all).iter().map(|s| (s.before, s.after)).collect::<Vec<_>>();
        assert!(of(&[Some([9.0, 11.0]), Some([10.9, 12.0]), Some([11.0, 13.0])]).is_empty(), "they overlap");
        assert_eq!(of(&[Some([9.0, 11.0]), Some([11.1, 12.0]), Some([7.0, 8.0])]), [(0, 1), (1, 2)]);
        assert_eq!(
            of(&[Some([9.0, 11.0]), None, Some([12.0, 13.0])]),
            [(0, 2)],
            "one without is passed over"
        );
        assert!(of(&[None, Some([1.0, 2.0])]).is_empty() && of(&[]).is_empty());
    }
}
