//! Search for the highest rate at which the client still sends on time.

use anyhow::Result;

/// First rate to try, in requests per second.
const FIRST: f64 = 1_000.0;
/// Rate at which the search ends, in requests per second: more than any LLM server reaches.
const LAST: f64 = 256_000.0;
/// Number of bisections of the last factor of two: the result is within 5 %.
const HALVINGS: usize = 4;

/// Returns the highest rate at which `exact` returns true: doubled from 1,000 (halved if that is too much), then
/// bisected. A rate that fails is tried once more, since another program may have had the core; one that passes is not
/// repeated. Returns 0 if no rate passes.
pub(super) async fn find(mut exact: impl AsyncFnMut(f64) -> Result<bool>) -> Result<f64> {
    let mut tried = async |rate: f64| Ok::<bool, anyhow::Error>(exact(rate).await? || exact(rate).await?);
    let (mut good, mut bad) = (0.0, FIRST);
    while tried(bad).await? {
        good = bad;
        bad *= 2.0;
        if bad > LAST {
            return Ok(good);
        }
    }
    while good < 1.0 {
        let lower = bad / 2.0;
        if lower < 1.0 {
            return Ok(0.0);
        }
        if tried(lower).await? {
            good = lower;
        } else {
            bad = lower;
        }
    }
    for _ in 0..HALVINGS {
        let between = (good * bad).sqrt();
        if tried(between).await? {
            good = between;
        } else {
            bad = between;
        }
    }
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_ceiling_is_found_from_below_and_above() {
        for ceiling in [3.0, 700.0, 1_000.0, 23_456.0, 200_000.0] {
            let found = find(async |rate| Ok(rate <= ceiling)).await.unwrap();
            assert!(found <= ceiling && found > ceiling / 1.05, "{found} for {ceiling}");
        }
        assert!(find(async |_| Ok(false)).await.unwrap() < 1.0);
        assert!(find(async |_| Ok(true)).await.unwrap() >= LAST);
    }

    #[tokio::test]
    async fn one_failure_is_forgiven() {
        let mut calls = 0;
        let found = find(async |rate| {
            calls += 1;
            Ok(rate <= 5_000.0 && calls % 2 == 0)
        });
        assert!(found.await.unwrap() > 4_700.0);
    }
}
