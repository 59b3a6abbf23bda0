use super::*;
use crate::seed::{Purpose, stream};

fn parse(text: &str) -> Lengths {
    #[derive(Deserialize)]
    struct T {
        x: Lengths,
    }
    toml::from_str::<T>(&format!("x = {text}")).unwrap().x
}

#[test]
fn draws_have_the_given_mean_and_cv() {
    for (text, mean, cv) in [
        ("{ fixed = 30 }", 30.0, 0.0),
        ("{ uniform = { min = 100, max = 300 } }", 200.0, 0.2901),
        ("{ normal = { mean = 500, cv = 0.2 } }", 500.0, 0.2),
        ("{ lognormal = { mean = 600, cv = 0.4 } }", 600.0, 0.4),
        ("{ lognormal = { mean = 600, cv = 1.5 } }", 600.0, 1.5),
    ] {
        let lengths = parse(text);
        let mut rng = stream(1, "main", 1, Purpose::Input);
        let n = 50_000;
        let xs: Vec<f64> = (0..n).map(|_| f64::from(lengths.draw(&mut rng))).collect();
        let m = xs.iter().sum::<f64>() / f64::from(n);
        let v = xs.iter().map(|x| (x - m).powi(2)).sum::<f64>() / f64::from(n);
        assert!((m / mean - 1.0).abs() < 0.03, "{text}: mean {m}");
        assert!((v.sqrt() / m - cv).abs() < 0.05 * cv.max(0.01) + 0.01, "{text}: cv {}", v.sqrt() / m);
        assert!((lengths.mean() - mean).abs() < 1e-9);
    }
}

#[test]
fn draws_have_the_given_quantiles() {
    let lengths = parse("{ quantiles = { p50 = 600, p90 = 2400 } }");
    // Closed form: σ = ln 4 / z, mean = 600 · e^(σ²/2).
    let sigma = 4_f64.ln() / Z90;
    let (mu, got) = lengths.log_moments();
    assert!((mu - 600_f64.ln()).abs() < 1e-12 && (got - sigma).abs() < 1e-12);
    assert!((lengths.mean() - 600.0 * (sigma * sigma / 2.0).exp()).abs() < 1e-6);
    let mut rng = stream(1, "main", 1, Purpose::Input);
    let mut xs: Vec<u32> = (0..50_000).map(|_| lengths.draw(&mut rng)).collect();
    xs.sort_unstable();
    let (p50, p90) = (f64::from(xs[25_000]), f64::from(xs[45_000]));
    assert!((p50 / 600.0 - 1.0).abs() < 0.03 && (p90 / 2400.0 - 1.0).abs() < 0.03, "{p50} {p90}");
    let clamped = parse("{ quantiles = { p50 = 600, p90 = 2400, max = 3000 } }");
    assert!((0..1000).map(|_| clamped.draw(&mut rng)).all(|x| (1..=3000).contains(&x)));
    assert_eq!((clamped.longest(), clamped.to_string()), (3000, "~600 (p90 2400)".into()));
    let same = parse("{ quantiles = { p50 = 9, p90 = 9 } }");
    assert_eq!((same.draw(&mut rng), same.longest()), (9, 9), "no variation");
}

#[test]
fn mean_of_agrees_with_the_mean_over_draws() {
    for text in [
        "{ fixed = 30 }",
        "{ uniform = { min = 100, max = 300 } }",
        "{ normal = { mean = 500, cv = 0.2 } }",
        "{ lognormal = { mean = 600, cv = 1.5, max = 4000 } }",
        "{ quantiles = { p50 = 600, p90 = 2400, max = 8192 } }",
    ] {
        let lengths = parse(text);
        let mut rng = stream(1, "main", 1, Purpose::Input);
        let xs: Vec<f64> = (0..50_000).map(|_| f64::from(lengths.draw(&mut rng))).collect();
        for most in [150.0, 400.0, 1e9] {
            let drawn = xs.iter().map(|x| x.min(most)).sum::<f64>() / xs.len() as f64;
            let got = lengths.mean_of(|x| x.min(most));
            assert!((got / drawn - 1.0).abs() < 0.02, "{text} up to {most}: {got} for {drawn}");
        }
        let below = xs.iter().filter(|x| **x < f64::from(lengths.shortest())).count();
        assert!(below <= 15, "{text}: {below}");
    }
}

#[test]
fn draws_are_clamped_and_never_zero() {
    let lengths = parse("{ normal = { mean = 2, cv = 3, max = 5 } }");
    let mut rng = stream(1, "main", 1, Purpose::Output);
    assert!((0..1000).map(|_| lengths.draw(&mut rng)).all(|x| (1..=5).contains(&x)));
    assert_eq!(lengths.longest(), 5);
}

#[test]
fn invalid_lengths_are_rejected() {
    for text in [
        "x = { fixed = 0 }",
        "x = { fixed = -3 }",
        "x = { uniform = { min = 9, max = 3 } }",
        "x = { normal = { mean = 600, cv = 0.1, max = 100 } }",
        "x = { lognormal = { mean = 600, cv = 0 } }",
        "x = { quantiles = { p50 = 600, p90 = 300 } }",
        "x = { quantiles = { p50 = 600, p90 = 900, max = 300 } }",
        "x = { quantiles = { p50 = 0.2, p90 = 3 } }",
        "x = { fixed = 3, uniform = { min = 1, max = 2 } }",
    ] {
        #[derive(Deserialize)]
        struct T {
            #[expect(dead_code, reason = "only whether it parses matters")]
            x: Lengths,
        }
        assert!(toml::from_str::<T>(text).is_err(), "{text}");
    }
}
