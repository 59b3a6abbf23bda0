//! Lookup table of ln(1 − e^−L), which is evaluated some million times per answer.

use std::sync::LazyLock;

/// Table entries per octave.
const PER_OCTAVE: usize = 256;
/// The octaves, from 2^-24 up to 2^3.
const FIRST_OCTAVE: i32 = -24;
const OCTAVES: usize = 27;

static TABLE: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let at = |i: usize| {
        let (octave, part) = (i / PER_OCTAVE, i % PER_OCTAVE);
        let l = 2_f64.powi(FIRST_OCTAVE + octave as i32) * (1.0 + part as f64 / PER_OCTAVE as f64);
        (-(-l).exp_m1()).ln()
    };
    (0..=PER_OCTAVE * OCTAVES).map(at).collect()
});

/// Returns ln(1 − e^−l) for l in [2^-24, 8) by linear interpolation, exact to 2e-6.
pub(super) fn ln_share(l: f64) -> f64 {
    const SHIFT: u32 = 52 - PER_OCTAVE.trailing_zeros();
    const BIAS: u64 = ((1023 + FIRST_OCTAVE) as u64) * PER_OCTAVE as u64;
    let table: &[f64] = &TABLE;
    let bits = l.to_bits();
    let at = ((bits >> SHIFT) - BIAS) as usize;
    let rest = (bits & ((1 << SHIFT) - 1)) as f64 / (1_u64 << SHIFT) as f64;
    table[at] + rest * (table[at + 1] - table[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_approximates_the_logarithm() {
        for l in [1e-7_f64, 3.3e-5, 0.010_05, 0.02, 0.7, 1.0, 3.999, 4.0, 7.9] {
            let exact = (-(-l).exp_m1()).ln();
            assert!((ln_share(l) - exact).abs() < 2.1e-6, "{l}: {} against {exact}", ln_share(l));
        }
    }
}
