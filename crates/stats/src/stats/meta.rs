//! Pools several runs into one answer: a random-effects model of their estimates.
//!
//! Run i estimates θᵢ with an error of known variance vᵢ, and the θᵢ of runs scatter around a common mean with variance τ²:
//! servers are restarted, neighbours come and go, caches are laid out differently. The model and its symbols are those of
//! meta-analysis:
//!
//! - τ² by Paule and Mandel (Journal of Research of the National Bureau of Standards 87, 1982): the value that makes Σ wᵢ (yᵢ −
//!   μ)² equal to k − 1, with wᵢ = 1 / (vᵢ + τ²). It needs no normal distribution and no iteration that may fail, and of the
//!   usual estimators it is among the least biased for few studies (Veroniki et al., Research Synthesis Methods 7, 2016; Langan
//!   et al., ibid. 10, 2019), where DerSimonian and Laird's is too small.
//! - The error of μ by Hartung and Knapp (Statistics in Medicine 20, 2001) and Sidik and Jonkman (ibid. 21, 2002): q / Σ wᵢ with
//!   q = Σ wᵢ (yᵢ − μ)² / (k − 1), and Student's distribution with k − 1 degrees of freedom. By the definition of τ² above, q is
//!   one whenever τ² > 0, and less if runs agree better than their own errors allow. It is then taken as one (the modification of
//!   Röver, Knapp and Friede, BMC Medical Research Methodology 15, 2015): with two or three runs that agree by luck, the plain
//!   form is far too narrow.
//! - A prediction interval for θ of the next run: μ ± t √(τ² + error²) with k − 2 degrees of freedom (Higgins, Thompson and
//!   Spiegelhalter, Journal of the Royal Statistical Society A 172, 2009). Two runs have none. Alone it is too narrow if the runs
//!   scatter less than their own errors: τ² is then often estimated as zero, and a 90 % interval covers the next run in 79 to 85
//!   % of cases (as Partlett and Riley, Statistics in Medicine 36, 2017, found; the test below has the cases). So it is widened
//!   to the interval that averages over the possible values of τ² (after Nagashima, Noma and Furukawa, Statistical Methods in
//!   Medical Research 28, 2019), wherever that one reaches further: Σ wᵢ (yᵢ − μ)² at the true τ² is chi-squared with k − 1
//!   degrees of freedom, so each quantile of that distribution has a τ² of its own.

use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};

/// Lower bound of a variance in weights, so that estimates without an error of their own are weighted equally.
const MIN_VARIANCE: f64 = 1e-12;
/// Number of bisections of a bracket that contains a root.
const BISECTIONS: usize = 45;
/// Number of values of τ² that a prediction averages over, at equally spaced probabilities.
const SPREADS: usize = 40;

/// Estimate of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Study {
    /// The estimate, such as the logarithm of a rate (yᵢ).
    pub value: f64,
    /// Variance of its own error (vᵢ); 0 if unknown.
    pub variance: f64,
}

/// Random-effects summary of several runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Pooled {
    /// Number of runs.
    pub runs: usize,
    /// Mean over runs, μ.
    pub mean: f64,
    /// Standard error of the mean.
    pub error: f64,
    /// Variance between runs, τ².
    pub between: f64,
    /// The pooled estimates.
    studies: Vec<Study>,
}

impl Pooled {
    /// Pools runs; `None` for fewer than two, or if a number is not finite.
    pub fn of(studies: &[Study]) -> Option<Self> {
        let sound = |s: &Study| s.value.is_finite() && s.variance.is_finite() && s.variance >= 0.0;
        if studies.len() < 2 || !studies.iter().all(sound) {
            return None;
        }
        let freedom = (studies.len() - 1) as f64;
        let between = between_variance(studies, freedom);
        let (mean, weight, _) = weighted(studies, between);
        Some(Self {
            runs: studies.len(),
            mean,
            error: weight.recip().sqrt(),
            between,
            studies: studies.to_vec(),
        })
    }

    /// Returns, for each of several equally likely values of τ², the mean over runs and the standard error of the next run.
    fn spreads(&self) -> Option<Vec<(f64, f64)>> {
        let squares = ChiSquared::new(self.degrees_of_freedom()).ok()?;
        let share = |i: usize| (i as f64 + 0.5) / SPREADS as f64;
        let at = |i: usize| {
            let between = between_variance(&self.studies, squares.inverse_cdf(share(i)));
            let (mean, weight, _) = weighted(&self.studies, between);
            (mean, (between + weight.recip()).sqrt())
        };
        Some((0..SPREADS).map(at).collect())
    }

    /// Returns the degrees of freedom of the mean's error.
    pub fn degrees_of_freedom(&self) -> f64 {
        (self.runs - 1) as f64
    }

    /// Returns the confidence interval of the mean over runs at this level.
    pub fn interval(&self, level: f64) -> Option<[f64; 2]> {
        self.around(self.error, self.degrees_of_freedom(), 0.5 + level / 2.0)
    }

    /// Returns the prediction interval for θ of the next run at this level; `None` for two runs.
    pub fn prediction(&self, level: f64) -> Option<[f64; 2]> {
        let quantile = 0.5 + level / 2.0;
        let [low, high] =
            self.around(self.predicted_error(), self.predicted_degrees_of_freedom()?, quantile)?;
        Some([low.min(self.averaged(1.0 - quantile)?), high.max(self.averaged(quantile)?)])
    }

    /// Returns the value that θ of the next run exceeds with this probability; `None` for two runs.
    pub fn predicted_above(&self, confidence: f64) -> Option<f64> {
        let [low, _] =
            self.around(self.predicted_error(), self.predicted_degrees_of_freedom()?, confidence)?;
        Some(low.min(self.averaged(1.0 - confidence)?))
    }

    /// Returns the standard error of θ of the next run: √(τ² + error²).
    pub fn predicted_error(&self) -> f64 {
        (self.between + self.error * self.error).sqrt()
    }

    /// Returns the degrees of freedom of a prediction; `None` for two runs.
    pub fn predicted_degrees_of_freedom(&self) -> Option<f64> {
        (self.runs > 2).then(|| (self.runs - 2) as f64)
    }

    /// Returns the mean ± Student's quantile × `error`.
    fn around(&self, error: f64, freedom: f64, quantile: f64) -> Option<[f64; 2]> {
        let half = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(quantile) * error;
        Some([self.mean - half, self.mean + half])
    }

    /// Returns the quantile of θ of the next run, averaged over the possible values of τ².
    fn averaged(&self, quantile: f64) -> Option<f64> {
        let student = StudentsT::new(0.0, 1.0, self.degrees_of_freedom()).ok()?;
        let spreads = self.spreads()?;
        let reach = student.inverse_cdf(quantile.max(1.0 - quantile));
        let end = |sign: f64| spreads.iter().map(move |(mean, error)| mean + sign * reach * error);
        let mut low = end(-1.0).fold(f64::INFINITY, f64::min);
        let mut high = end(1.0).fold(f64::NEG_INFINITY, f64::max);
        let below = |x: f64| {
            let each = spreads.iter().map(|(mean, error)| student.cdf((x - mean) / error));
            each.sum::<f64>() / spreads.len() as f64
        };
        for _ in 0..BISECTIONS {
            let middle = 0.5 * (low + high);
            if below(middle) < quantile { low = middle } else { high = middle }
        }
        Some(0.5 * (low + high))
    }
}

/// Returns the mean with weights 1 / (vᵢ + τ²), the sum of the weights, and the weighted sum of squares around the mean.
fn weighted(studies: &[Study], between: f64) -> (f64, f64, f64) {
    let weights = studies.iter().map(|s| (s.variance.max(MIN_VARIANCE) + between).recip());
    let pairs: Vec<(f64, f64)> = weights.zip(studies.iter().map(|s| s.value)).collect();
    let sum: f64 = pairs.iter().map(|(w, _)| w).sum();
    let mean = pairs.iter().map(|(w, y)| w * y).sum::<f64>() / sum;
    let squares = pairs.iter().map(|(w, y)| w * (y - mean).powi(2)).sum();
    (mean, sum, squares)
}

/// Returns the variance between runs that makes the weighted sum of squares equal to `target`, or zero if the sum is no larger
/// without any. With a target of k − 1 it is the estimate of Paule and Mandel.
///
/// The sum falls as τ² rises, and it is at most Σ (yᵢ − ȳ)² / τ², since no weight is above 1 / τ². So the root lies between zero
/// and Σ (yᵢ − ȳ)² / target.
fn between_variance(studies: &[Study], target: f64) -> f64 {
    let squares = |between: f64| weighted(studies, between).2;
    if squares(0.0) <= target {
        return 0.0;
    }
    let mean = studies.iter().map(|s| s.value).sum::<f64>() / studies.len() as f64;
    let (mut low, mut high) = (0.0, studies.iter().map(|s| (s.value - mean).powi(2)).sum::<f64>() / target);
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (low + high);
        if squares(middle) > target { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Normal};

    fn studies(values: &[f64], variances: &[f64]) -> Vec<Study> {
        values
            .iter()
            .zip(variances)
            .map(|(value, variance)| Study { value: *value, variance: *variance })
            .collect()
    }

    /// Nine laboratories measure one thing: Kacker, Metrologia 41 (2004); τ² = 0.7054, mean 62.4076 and its error 0.3380 by R's metafor
    /// (`method = "PM"`).
    #[test]
    fn paule_and_mandel_on_the_interlaboratory_study() {
        let values = [61.0, 61.4, 62.21, 62.3, 62.34, 62.6, 62.7, 62.84, 65.9];
        let variances = [0.2025, 1.21, 0.09, 0.2025, 0.3844, 0.5625, 0.0676, 0.0225, 1.8225];
        let pooled = Pooled::of(&studies(&values, &variances)).unwrap();
        assert!((pooled.between - 0.705_395_309).abs() < 1e-8, "{pooled:?}");
        assert!((pooled.mean - 62.407_619_911).abs() < 1e-8 && (pooled.error - 0.338_030_603).abs() < 1e-8);
        // Student's 97.5 % quantile with eight degrees of freedom is 2.306004, with seven 2.364624.
        let [low, high] = pooled.interval(0.95).unwrap();
        assert!((high - low - 2.0 * 2.306_004 * 0.338_030_603).abs() < 1e-5, "{low} {high}");
        let [low, high] = pooled.prediction(0.95).unwrap();
        let error = (0.705_395_309_f64 + 0.338_030_603_f64.powi(2)).sqrt();
        let [least_low, least_high] = pooled.around(error, 7.0, 0.975).unwrap();
        assert!((least_high - least_low - 2.0 * 2.364_624 * error).abs() < 1e-5);
        assert!(low <= least_low && high >= least_high, "{low} {high} within {least_low} {least_high}");
        let (wide, least) = (high - low, least_high - least_low);
        assert!(wide < 1.5 * least, "{wide} beside {least}");
    }

    /// Thirteen trials of the BCG vaccine (Colditz et al., JAMA 271, 1994), logarithms of risk ratios: τ² = 0.318 and −0.715 [−1.109, −0.321]
    /// are the published figures of Paule and Mandel's estimator with Hartung and Knapp's interval.
    #[test]
    fn hartung_and_knapp_on_the_vaccine_trials() {
        let trials: [[f64; 4]; 13] = [
            [4.0, 119.0, 11.0, 128.0],
            [6.0, 300.0, 29.0, 274.0],
            [3.0, 228.0, 11.0, 209.0],
            [62.0, 13_536.0, 248.0, 12_619.0],
            [33.0, 5_036.0, 47.0, 5_761.0],
            [180.0, 1_361.0, 372.0, 1_079.0],
            [8.0, 2_537.0, 10.0, 619.0],
            [505.0, 87_886.0, 499.0, 87_892.0],
            [29.0, 7_470.0, 45.0, 7_232.0],
            [17.0, 1_699.0, 65.0, 1_600.0],
            [186.0, 50_448.0, 141.0, 27_197.0],
            [5.0, 2_493.0, 3.0, 2_338.0],
            [27.0, 16_886.0, 29.0, 17_825.0],
        ];
        let study = |[a, b, c, d]: [f64; 4]| Study {
            value: ((a / (a + b)) / (c / (c + d))).ln(),
            variance: a.recip() - (a + b).recip() + c.recip() - (c + d).recip(),
        };
        let pooled = Pooled::of(&trials.map(study)).unwrap();
        assert!(
            (pooled.between - 0.318_1).abs() < 1e-4 && (pooled.mean + 0.715_0).abs() < 1e-4,
            "{pooled:?}"
        );
        let [low, high] = pooled.interval(0.95).unwrap();
        assert!((low + 1.109).abs() < 1e-3 && (high + 0.321).abs() < 1e-3, "{low} {high}");
    }

    #[test]
    fn runs_that_agree_keep_their_own_errors() {
        let pooled = Pooled::of(&studies(&[3.0, 3.0, 3.0, 3.0], &[0.04; 4])).unwrap();
        assert!((pooled.mean - 3.0).abs() < 1e-12 && pooled.between.abs() < 1e-12);
        assert!((pooled.error - 0.1).abs() < 1e-12, "not less: {pooled:?}");
    }

    /// Values without errors of their own: the mean, and the standard error of a sample.
    #[test]
    fn values_without_errors_are_a_sample() {
        let pooled = Pooled::of(&studies(&[1.0, 2.0, 6.0], &[0.0; 3])).unwrap();
        assert!((pooled.mean - 3.0).abs() < 1e-6 && (pooled.between - 7.0).abs() < 1e-6, "{pooled:?}");
        assert!((pooled.error - (7.0_f64 / 3.0).sqrt()).abs() < 1e-6);
        let same = Pooled::of(&studies(&[2.0, 2.0], &[0.0; 2])).unwrap();
        assert!(same.error < 1e-5 && same.between.abs() < 1e-12, "{same:?}");
    }

    #[test]
    fn too_few_or_undefined_runs_are_not_pooled() {
        assert_eq!(Pooled::of(&studies(&[1.0], &[0.1])), None);
        assert_eq!(Pooled::of(&studies(&[1.0, f64::NEG_INFINITY], &[0.1, 0.1])), None);
        assert_eq!(Pooled::of(&studies(&[1.0, 2.0], &[0.1, f64::NAN])), None);
        let two = Pooled::of(&studies(&[1.0, 2.0], &[0.1, 0.1])).unwrap();
        assert!(
            two.interval(0.9).is_some()
                && two.prediction(0.9).is_none()
                && two.predicted_above(0.95).is_none()
        );
    }

    /// Returns the coverage of the intervals over many sets of runs, with the errors that sweeps have (2 to 6 %) and a standard
    /// deviation of `spread` between runs. The last is that of the prediction by Higgins, Thompson and Spiegelhalter alone.
    fn coverage(runs: usize, spread: f64) -> [f64; 4] {
        const SETS: usize = 300;
        let mut rng = ChaCha8Rng::seed_from_u64(19 + runs as u64);
        let normal = Normal::new(0.0, 1.0).unwrap();
        let mut covered = [0.0; 4];
        for _ in 0..SETS {
            let one = |i: usize, rng: &mut ChaCha8Rng| {
                let error = [0.02, 0.04, 0.06][i % 3];
                Study {
                    value: spread * normal.sample(rng) + error * normal.sample(rng),
                    variance: error * error,
                }
            };
            let set: Vec<Study> = (0..runs).map(|i| one(i, &mut rng)).collect();
            let pooled = Pooled::of(&set).unwrap();
            let next = spread * normal.sample(&mut rng);
            let prediction = pooled.prediction(0.9);
            let within =
                |ends: Option<[f64; 2]>, x: f64| ends.is_some_and(|[low, high]| low <= x && x <= high);
            let plain = pooled
                .predicted_degrees_of_freedom()
                .and_then(|f| pooled.around(pooled.predicted_error(), f, 0.95));
            let covers = [
                within(pooled.interval(0.9), 0.0),
                within(prediction, next),
                // The lower end of the 90 % interval.
                prediction.is_some_and(|[low, _]| low <= next),
                within(plain, next),
            ];
            covered.iter_mut().zip(covers).for_each(|(n, yes)| *n += f64::from(u8::from(yes)) / SETS as f64);
        }
        covered
    }

    #[test]
    fn intervals_have_their_nominal_coverage() {
        for (runs, spread) in [(3, 0.03), (3, 0.1), (5, 0.03), (10, 0.02), (10, 0.05)] {
            let [mean, next, safe, _] = coverage(runs, spread);
            assert!(mean >= 0.85, "{runs} runs, {spread} between: the mean in {mean}");
            assert!(
                next >= 0.88 && safe >= 0.92,
                "{runs} runs, {spread} between: the next in {next}, above in {safe}"
            );
        }
        let [mean, next, ..] = coverage(2, 0.05);
        assert!(mean >= 0.88 && next.abs() < 1e-12, "two runs: {mean}, and no prediction");
        assert!(coverage(10, 0.02)[3] < 0.87, "the plain prediction is too narrow here");
    }
}
