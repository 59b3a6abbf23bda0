//! TTFT over the length of the prompt, one request at a time: the intercept of the line is the fixed cost of a request,
//! its slope is prefill.

use super::facts::LengthPoint;

/// Least ratio of the longest to the shortest length: closer together, the scatter of two medians would look like a
/// slope.
const APART: f64 = 2.0;

/// Least ratio of the longest to the shortest length for prompts that are not slower for it: if reading took most of TTFT, the
/// longest would take half as long again, which is beyond the scatter of two medians.
const APART_IF_FLAT: f64 = 1.5;

/// Ratio below which two lengths count as one: their medians scatter either way.
const ALIKE: f64 = 1.15;
/// Least ratio of successive medians that counts as no fall: medians of a few dozen requests scatter by some per cent.
const LEVEL: f64 = 0.95;

/// A line through medians of TTFT.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// TTFT of a prompt without tokens, in milliseconds; at least 0.
    pub(super) overhead_ms: f64,
    /// Time per prompt token, in milliseconds.
    pub(super) per_token_ms: f64,
    /// The shortest and the longest prompts.
    pub(super) ends: [LengthPoint; 2],
    /// True if no longer group of prompts is faster than a shorter one.
    pub(super) rises: bool,
}

/// Returns the points of one deployment, in order of their lengths; `None` if their ratio is less than `least`.
fn apart<'a>(points: &'a [LengthPoint], deployment: &str, least: f64) -> Option<Vec<&'a LengthPoint>> {
    let mut own: Vec<&LengthPoint> = points.iter().filter(|p| p.deployment == deployment).collect();
    own.sort_by(|a, b| a.tokens.total_cmp(&b.tokens));
    let ([first, ..], [.., last]) = (&own[..], &own[..]) else { return None };
    (last.tokens >= least * first.tokens.max(1.0)).then_some(own)
}

/// Returns true if prompts of lengths far apart were measured and the longer ones are not slower: reading them takes next to
/// nothing of their TTFT.
pub fn is_flat(points: &[LengthPoint], deployment: &str) -> bool {
    let Some(own) = apart(points, deployment, APART_IF_FLAT) else { return false };
    let ([first, ..], [.., last]) = (&own[..], &own[..]) else { return false };
    last.ttft_ms <= first.ttft_ms
}

/// Returns the least-squares line through the points of one deployment; `None` if their lengths are too close together,
/// or the line falls.
pub(super) fn line(points: &[LengthPoint], deployment: &str) -> Option<Line> {
    let own = apart(points, deployment, APART)?;
    let ([first, ..], [.., last]) = (&own[..], &own[..]) else { return None };
    let n = own.len() as f64;
    let mean = |of: fn(&LengthPoint) -> f64| own.iter().map(|p| of(p)).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.tokens), mean(|p| p.ttft_ms));
    let across: f64 = own.iter().map(|p| (p.tokens - x) * (p.ttft_ms - y)).sum();
    let per_token_ms = across / own.iter().map(|p| (p.tokens - x).powi(2)).sum::<f64>();
    (per_token_ms > 0.0).then(|| Line {
        overhead_ms: (y - per_token_ms * x).max(0.0),
        per_token_ms,
        ends: [(*first).clone(), (*last).clone()],
        rises: own
            .windows(2)
            .all(|w| w[1].ttft_ms >= LEVEL * w[0].ttft_ms || w[1].tokens < ALIKE * w[0].tokens),
    })
}

/// Returns the time for each prompt token by which the longest prompts of one deployment differ from the shortest, in
/// milliseconds; `None` if their lengths are too close together, or longer prompts are not slower.
///
/// Attention costs a token more the longer its prompt is: the long prompts, which make tails, count more here than in the
/// least-squares line.
pub fn per_token_ms(points: &[LengthPoint], deployment: &str) -> Option<f64> {
    let [shortest, longest] = line(points, deployment)?.ends;
    let slope = (longest.ttft_ms - shortest.ttft_ms) / (longest.tokens - shortest.tokens);
    Some(slope).filter(|slope| *slope > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(of: &[(f64, f64)]) -> Vec<LengthPoint> {
        let point = |(i, (tokens, ttft_ms)): (u32, &(f64, f64))| LengthPoint {
            deployment: "a".into(),
            step: i,
            tokens: *tokens,
            ttft_ms: *ttft_ms,
            n: 50,
        };
        (1..).zip(of).map(point).collect()
    }

    #[test]
    fn lines_of_known_points() {
        for (what, of, want) in [
            ("a line", &[(256.0, 9.12), (512.0, 13.24), (2048.0, 37.96)][..], Some((5.0, true))),
            ("two lengths too near", &[(600.0, 14.0), (900.0, 19.0)], None),
            ("one length", &[(600.0, 14.0)], None),
            ("none", &[], None),
            ("it falls", &[(100.0, 20.0), (1000.0, 10.0)], None),
            ("one length twice", &[(256.0, 9.2), (256.0, 9.1), (2048.0, 38.0)], Some((5.02, true))),
            ("it rises as a whole", &[(100.0, 10.0), (500.0, 9.0), (1000.0, 20.0)], Some((6.84, false))),
        ] {
            let got = line(&points(of), "a").map(|l| (l.overhead_ms, l.rises));
            match (got, want) {
                (Some((g, rises)), Some((w, want))) => {
                    assert!((g - w).abs() < 0.02 && rises == want, "{what}: {g}")
                }
                (got, want) => assert_eq!(got.is_some(), want.is_some(), "{what}"),
            }
            assert_eq!(is_flat(&points(of), "a"), what == "it falls", "{what}");
        }
        assert_eq!(line(&points(&[(1.0, 1.0), (9.0, 9.0)]), "another"), None);
    }
}
