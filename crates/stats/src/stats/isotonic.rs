//! Isotonic regression (Barlow et al. 1972; pool adjacent violators).

/// Returns the isotonic regression of some values: the nearest values, by least squares, that never fall.
pub fn isotonic(values: &[f64]) -> Vec<f64> {
    // Blocks of equal values: their mean and their length.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for value in values {
        let mut block = (*value, 1);
        while let Some((mean, n)) = blocks.pop_if(|(mean, _)| *mean > block.0) {
            let both = n + block.1;
            block = ((mean * n as f64 + block.0 * block.1 as f64) / both as f64, both);
        }
        blocks.push(block);
    }
    blocks.into_iter().flat_map(|(mean, n)| std::iter::repeat_n(mean, n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_fall_are_pooled() {
        for (values, want) in [
            (&[1.0, 2.0, 3.0][..], &[1.0, 2.0, 3.0][..]),
            (&[1.0, 5.0, 3.0, 9.0], &[1.0, 4.0, 4.0, 9.0]),
            (&[3.0, 2.0, 1.0], &[2.0, 2.0, 2.0]),
            (&[], &[]),
        ] {
            assert_eq!(isotonic(values), want, "{values:?}");
        }
    }
}
