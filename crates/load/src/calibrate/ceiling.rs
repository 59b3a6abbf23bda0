//! The highest rate at which the client is still exact.

use anyhow::Result;

/// Where the search begins, in requests per second.
const FIRST: f64 = 1_000.0;
/// Beyond this no server of language models is.
const LAST: f64 = 256_000.0;
/// Bisections of the last factor of two: the answer is within 5 %.
const HALVINGS: usize = 4;

/// The highest rate at which `exact` holds: doubled from 1,000 (halved where that is too much), then bisected. A rate
/// that fails is tried once more, since another program may have had the core; what passes is never tried again. 0
/// where nothing passes.
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
