use super::*;
use crate::charts;
use crate::render::{markdown, terminal};
use candidate::{HardwareOverrides, of_run};
use goodput_run::fixture;
use goodput_stats::capacity::Demand;
use goodput_stats::capacity::demand::Hour;
use goodput_stats::capacity::fleet::{Replica, Reserve};
use goodput_stats::capacity::sizing::{Candidate, Sizing, ranked};
use refused::Refused;
use std::path::{Path, PathBuf};

fn print(c: &Capacity, files: &[PathBuf], width: Option<u16>) -> String {
    let usual = terminal::Screen::default();
    terminal::render(&brief(c, files), &terminal::Screen { width: width.unwrap_or(usual.width), ..usual })
}

fn render(c: &Capacity, chart: bool) -> String {
    markdown::render(&page(c, chart))
}

fn replica(rate: f64) -> Replica {
    Replica {
        rate,
        gpus: 1,
        output_tokens: Some(30.0),
        price_per_hour: Some(0.39),
        watts: None,
        energy_price: None,
    }
}

/// Returns the capacity for a given rate, at 5 million requests a day.
pub(super) fn given(reserve: Reserve, peak_to_mean: f64) -> Capacity {
    let candidate = Candidate {
        name: "the given rate".into(),
        gpu: None,
        goodput: replica(35.0),
        safe: None,
        basis: "as given".into(),
        currency: Some("USD".into()),
        max_cost_per_mtok: None,
        measured: None,
        notes: Vec::new(),
        moved: Vec::new(),
        items: None,
    };
    of(vec![candidate], reserve, peak_to_mean)
}

pub(super) fn of(all: Vec<Candidate>, reserve: Reserve, peak_to_mean: f64) -> Capacity {
    let demand = Demand::of_volume("5M".parse().unwrap(), peak_to_mean);
    let all = all.into_iter().map(|c| Sizing::of(c, &demand, &reserve)).collect();
    Capacity { demand, reserve, all: ranked(all), refused: Vec::new(), explain: true }
}

/// Returns the capacity of the fixtures' estimate, on an A40.
pub(super) fn measured(reserve: Reserve, peak_to_mean: f64) -> Capacity {
    let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "interval").unwrap();
    run.hardware =
        toml::from_str("gpu = \"A40\"\ngpus = 1\nprice-per-hour = 0.39\ncurrency = \"USD\"").unwrap();
    of(
        of_run(&run, ("a40", Path::new("a40")), None, &HardwareOverrides::default()).unwrap().0,
        reserve,
        peak_to_mean,
    )
}

/// The seed figures: 5,000,000 requests a day at 35 requests/s per GPU.
#[test]
fn the_answer_in_one_line() {
    let headroom = Reserve { headroom: 2.0, spares: 0 };
    assert_eq!(
        given(headroom, 1.0).headline(),
        "5,000,000 requests a day at 35 requests/s per GPU: 57.87 requests/s, 2 GPUs; with headroom 2: 4 GPUs"
    );
    assert_eq!(
        measured(Reserve { headroom: 2.0, spares: 1 }, 3.0).headline(),
        "5,000,000 requests a day at 31.6 requests/s per A40, the safe rate: 173.6 requests/s at the peak, 6 GPUs; with headroom 2: \
         11 GPUs; and 1 spare replica: 12 GPUs"
    );
}

/// Rows: headroom, spare replicas, and the headline of the slide.
#[test]
fn a_slide_says_what_a_volume_needs_and_costs() {
    for (headroom, spares, head) in [
        (2.0, 0, "5 million requests a day need 4 × A40 (2 without headroom), 37.44 USD a day"),
        (1.0, 0, "5 million requests a day need 2 × A40, 18.72 USD a day"),
        (1.0, 1, "5 million requests a day need 3 × A40 (2 without a spare), 28.08 USD a day"),
        (2.0, 1, "5 million requests a day need 5 × A40 (2 without reserve), 46.80 USD a day"),
    ] {
        let c = measured(Reserve { headroom, spares }, 1.0);
        assert_eq!(c.chart_headline(), head);
        assert_eq!(c.chart_rate().as_deref(), Some("each at 31.6 requests/s, the safe rate"));
    }
}

/// For a run with several series, the answer, its row and its chart name the series that is planned with.
#[test]
fn the_series_is_named_wherever_the_answer_stands() {
    let mut run = fixture::variants();
    run.variants.truncate(1);
    run.answers.retain(|a| a.series != "large");
    let c = of(
        of_run(&run, ("grid", Path::new("grid")), None, &HardwareOverrides::default()).unwrap().0,
        Reserve::default(),
        1.0,
    );
    let text = print(&c, &[], None);
    for says in ["grid, small: 5,000,000 requests a day at", "measured  grid, small: 600 in"] {
        assert!(text.contains(says), "{says}: {text}");
    }
    assert!(render(&c, true).starts_with("# grid, small: 5,000,000"));
    let head = "grid, small: 5 million requests a day need 2 × A40";
    assert!(c.chart_headline().starts_with(head), "{}", c.chart_headline());
    assert!(charts::of_capacity(&c).unwrap().svg.contains(head));
}

/// The cold and the warm cache of a pair are one server, not alternatives.
#[test]
fn cases_of_one_server_are_no_rivals() {
    let mut run = fixture::pair();
    for part in &mut run.parts {
        part.hardware.price_per_hour = Some(0.39.try_into().unwrap());
    }
    let one = |series: &str| {
        of_run(&run, ("r", Path::new("r")), Some(series), &HardwareOverrides::default()).unwrap().0
    };
    let both = of([one("cold"), one("warm")].concat(), Reserve::default(), 1.0);
    let head = both.headline();
    assert!(
        head.contains(": r, warm takes 2 GPUs, 18.72 a day; r, cold takes 2 GPUs, 18.72 a day; ")
            && head.ends_with("r, warm and r, cold are cases of one server, not rivals"),
        "{head}"
    );
    assert!(!head.contains("for its money"), "{head}");
    let rivals =
        of_run(&fixture::variants(), ("r", Path::new("r")), None, &HardwareOverrides::default()).unwrap().0;
    assert!(!of(rivals, Reserve::default(), 1.0).headline().contains("one server"));
}

/// Returns the cells of the first row of a table whose name begins with `name`.
fn cells<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let own = text.lines().find_map(|l| l.trim().strip_prefix(name).filter(|rest| rest.starts_with("  ")));
    let cells = own.unwrap_or_else(|| panic!("no row {name:?}: {text}")).split("  ");
    cells.map(str::trim).filter(|c| !c.is_empty()).collect()
}

/// Rows: name, at the safe rate of 31.6 requests/s, at the goodput of 33.4.
#[test]
fn a_measured_candidate_for_a_terminal() {
    let c = Capacity { explain: false, ..measured(Reserve { headroom: 2.0, spares: 1 }, 3.0) };
    let text = print(&c, &["out/capacity.md".into()], None);
    for (name, safe, goodput) in [
        ("one replica (A40) takes, requests/s", "31.6", "33.4"),
        ("replicas for the peak", "6", "6"),
        ("… with headroom 2", "11", "11"),
        ("… and 1 spare", "12", "12"),
        ("GPUs", "12", "12"),
        ("utilisation in the mean", "15.3 %", "14.4 %"),
        ("… at the peak", "45.8 %", "43.3 %"),
        ("… at the peak, one replica lost", "49.9 %", "47.3 %"),
        ("cost of a day", "112.32 USD", "112.32 USD"),
        ("cost of a month of 30.42 days", "3,416 USD", "3,416 USD"),
        ("cost of a million output tokens, at this demand", "0.749 USD", "0.749 USD"),
        ("… at full load, at its rate all day", "0.114 USD", "0.108 USD"),
        ("cost of 1,000 requests, at this demand", "0.0225 USD", "0.0225 USD"),
    ] {
        assert_eq!(cells(&text, name), [safe, goodput], "{name}");
    }
    for says in [
        "demand       5,000,000 requests a day, 57.87 requests/s in the mean\n",
        "peak         173.6 requests/s, 3 × the mean\n",
        "to plan for  347.2 requests/s, with headroom 2\n",
        "SLO          p99 TTFT ≤",
        "Caveats:\n! ",
        "\n\nout/capacity.md",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
    assert!(
        text.lines().filter(|l| !l.starts_with('!')).all(|l| l.chars().count() <= 100 || l.contains(':')),
        "{text}"
    );
}

#[test]
fn every_formula_has_its_numbers() {
    let text = print(&given(Reserve { headroom: 2.0, spares: 0 }, 1.0), &[], None);
    for says in [
        "mean rate = requests of a day / 86,400 s\n    = 5,000,000 / 86,400\n    = 57.87 requests/s",
        "⌈115.7 / 35⌉ + 0 = ⌈3.307⌉ + 0\n    = 4",
        "= 4 × 0.39 × 24\n    = 37.44 USD",
        "= 37.44 / (5,000,000 × 30) × 1,000,000\n    = 0.25 USD",
        "= 1 × 0.39 / 3,600 / (35 × 30) × 1,000,000\n    = 0.103 USD",
    ] {
        assert!(text.contains(says), "{says}\n{text}");
    }
}

#[test]
fn several_candidates_stand_beside_one_another_and_what_differs_first() {
    let mut one = measured(Reserve::default(), 1.0).all.swap_remove(0).candidate;
    let mut other = one.clone();
    (other.name, other.gpu) = ("h100".into(), Some("H100".into()));
    other.goodput = Replica { rate: 240.0, price_per_hour: Some(2.0), ..other.goodput };
    other.safe = Some(Replica { rate: 220.0, ..other.goodput });
    if let Some(m) = &mut other.measured {
        (m.run, m.slo) = ("h100".into(), "p99 TTFT ≤ 500 ms".into());
    }
    one.max_cost_per_mtok = Some(0.13);
    let c = of(vec![one.clone(), other.clone()], Reserve::default(), 1.0);
    assert_eq!(c.cost_kept(), Some(true));
    assert!(
        c.headline().contains(
            "h100 takes the most for its money (1 GPU, 48.00 USD a day), before a40 (2 GPUs, 18.72 USD a day); for this demand a40 is \
             the cheapest (18.72 USD a day)"
        ),
        "{}",
        c.headline()
    );
    let text = print(&c, &[], None);
    assert!(
        text.starts_with("! These runs are not alike, so neither are their figures. SLO: h100 has"),
        "{text}"
    );
    assert!(text.find("h100").unwrap() < text.find("a40").unwrap() && text.contains("req/s for"), "{text}");
    assert!(text.contains("8,010,000"), "1 USD / 0.125 USD a million: {text}");
    other.currency = Some("EUR".into());
    let c = of(vec![one, other], Reserve::default(), 1.0);
    let text = print(&c, &[], None);
    assert!(
        text.contains("Prices are in USD and EUR: nothing is converted")
            && text.matches("cost of a").count() >= 2,
        "{text}"
    );
    assert!(!c.headline().contains("the most for its money"), "{}", c.headline());
}

/// One of two has no safe rate: they are ranked by the goodput, but the GPUs and costs of each are at its planned rate.
#[test]
fn what_is_ranked_by_the_goodput_is_planned_at_the_safe_rate() {
    let one = measured(Reserve::default(), 1.0).all.swap_remove(0).candidate;
    let mut open = Candidate {
        name: "open".into(),
        safe: None,
        basis: "the highest rate shown to meet".into(),
        ..one.clone()
    };
    open.goodput.rate = 20.0;
    if let Some(m) = &mut open.measured {
        m.run = "open".into();
    }
    let demand = Demand::of_rate(100.0, 1.0);
    let all = [one, open].map(|c| Sizing::of(c, &demand, &Reserve::default()));
    let c = Capacity {
        demand,
        reserve: Reserve::default(),
        all: ranked(all.to_vec()),
        refused: Vec::new(),
        explain: false,
    };
    // 100 requests/s: three GPUs at the goodput of 33.4, four at the safe rate of 31.6, five at 20.
    assert_eq!(
        c.headline(),
        "8,640,000 requests a day: a40 takes the most for its money at the goodput (4 GPUs, 37.44 USD a day at the safe rate), before open \
         (5 GPUs, 46.80 USD a day at the highest rate shown to meet, it has no safe rate)"
    );
    let text = render(&c, false);
    assert!(text.contains("| a40 | A40 | 33.4 | 85.64 | 31.6 | 4 | 79.1 % | 37.44 USD |"), "{text}");
    assert!(print(&c, &[], None).contains("Sorted by the goodput, since not every one has a safe rate;"));
    let chart = charts::of_capacity(&c).unwrap().svg;
    assert!(chart.contains("4 GPUs") && !chart.contains(">3 GPUs"), "the chart counts what is planned with");
}

/// A candidate with a safe rate is judged at that, even next to one without: the cost shown with the verdict is the one
/// that was judged.
#[test]
fn the_limit_is_judged_at_the_cost_that_is_shown() {
    let mut one = measured(Reserve::default(), 1.0).all.swap_remove(0).candidate;
    let demand = Demand::of_rate(100.0, 1.0);
    one.max_cost_per_mtok = Some(0.13);
    let mut open = Candidate { name: "open".into(), safe: None, ..one.clone() };
    open.max_cost_per_mtok = None;
    // 100 requests/s take three GPUs and 0.108 USD at the goodput of 33.4, four and 0.144 USD at the safe rate of 31.6.
    let all = [one, open].map(|c| Sizing::of(c, &demand, &Reserve::default()));
    let c = Capacity {
        demand,
        reserve: Reserve::default(),
        all: ranked(all.to_vec()),
        refused: Vec::new(),
        explain: false,
    };
    assert_eq!(c.cost_kept(), Some(false));
    let text = render(&c, false);
    assert!(text.contains("0.144 USD | 6,920,000 | rejected |"), "{text}");
}

/// Each row of a report has its formula: here for a measured candidate whose power is billed, with an hourly profile.
#[test]
fn no_figure_is_without_its_formula() {
    let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "interval").unwrap();
    run.hardware = toml::from_str(
        "gpu = \"A40\"\ngpus = 2\ntensor-parallel = 1\nprice-per-hour = 0.39\nwatts = 300\nenergy-price = 0.25\ncurrency = \"USD\"",
    )
    .unwrap();
    let hours = (0..24).map(|h| Hour { name: h.to_string(), rate: if h == 14 { 100.0 } else { 10.0 } });
    let demand = Demand::of_hours(hours.collect(), "h.csv".into());
    let all = of_run(&run, ("a40", Path::new("a40")), None, &HardwareOverrides::default()).unwrap().0;
    let all = all.into_iter().map(|c| Sizing::of(c, &demand, &Reserve::default())).collect();
    let c = Capacity { demand, reserve: Reserve::default(), all, refused: Vec::new(), explain: true };
    let text = print(&c, &[], None);
    for says in [
        "rate of one = rate of the measured server / copies of the model in it\n    = 33.4 / 2\n    = 16.7 requests/s",
        "output tokens of one = output tokens/s of the measured server / its requests/s\n    = 1,002 / 33.4\n    = 30",
        "GPU-hours of a day, fixed = GPUs × 24 h\n    = 6 × 24\n    = 144",
        "power under load = GPUs × watts / 1,000\n    = 6 × 300 / 1,000\n    = 1.8 kW",
        "cost of a day, of it energy = energy of a day × price of a kWh\n    = 43.2 × 0.25\n    = 10.80 USD",
        // 23 hours with one, and one with six.
        "cost of a day, autoscaled = GPU-hours of a day, autoscaled × cost of a GPU-hour\n    = 29 × 0.465\n    = 13.49 USD",
    ] {
        assert!(text.contains(says), "{says}\n{text}");
    }
}

#[test]
fn what_is_over_the_limit_is_marked() {
    let mut c = given(Reserve { headroom: 2.0, spares: 0 }, 1.0).all.swap_remove(0).candidate;
    c.max_cost_per_mtok = Some(0.2);
    let c = of(vec![c], Reserve { headroom: 2.0, spares: 0 }, 1.0);
    let text = print(&c, &[], None);
    assert_eq!(c.cost_kept(), Some(false));
    assert!(text.contains("Cost limit rejected: a million output tokens cost 0.25 USD at this demand (0.103 USD at full load), at most 0.2 USD may be."), "{text}");
    assert!(text.contains("✕ 0.25 USD") && render(&c, false).contains("**rejected**"));
}

#[test]
fn markdown_and_json_hold_the_same_figures() {
    let mut c = measured(Reserve { headroom: 2.0, spares: 1 }, 3.0);
    c.refused.push(Refused { name: "b | c".into(), why: "<none>".into(), advice: "measure".into() });
    let text = render(&c, true);
    let (mut head, mut cells) = (0, 0);
    for line in text.lines().filter(|l| l.starts_with('|')) {
        let n = line.replace("\\|", "").matches('|').count();
        (head, cells) = if line.starts_with("| ---") { (cells, n) } else { (head, n) };
        assert!(n > 2 && (head == 0 || n == cells), "{line}");
    }
    assert!(text.contains("| GPUs | 12 | 12 |") && text.contains("(capacity-charts/capacity.png)"), "{text}");
    assert!(text.contains("b \\| c: &lt;none&gt;"));
    let v = json(&c);
    assert_eq!(v["candidates"][0]["at_safe_rate"]["gpus"], 12);
    assert_eq!(v["candidates"][0]["at_goodput"]["replicas_for_peak"], 6);
    assert!((v["demand"]["mean_rate"].as_f64().unwrap() - 57.870_37).abs() < 1e-4);
    assert_eq!(
        (v["schema"].as_str(), v["ranked_by"].as_str()),
        (Some("goodput-capacity/1"), Some("safe-rate"))
    );
    assert!(v["formulas"].as_array().is_some_and(|p| p.len() == 3), "demand, safe rate, goodput");
}

#[test]
fn nothing_to_plan_with_says_why() {
    let refused =
        Refused { name: "a40".into(), why: "its goodput is undecided".into(), advice: "more time".into() };
    let c = Capacity { refused: vec![refused], ..of(Vec::new(), Reserve::default(), 1.0) };
    let text = print(&c, &[], None);
    assert!(text.contains("a40 has no rate to plan with: its goodput is undecided\n  → more time"), "{text}");
    assert!(render(&c, false).contains("Without a rate to plan with"));
    assert_eq!((c.cost_kept(), json(&c)["candidates"].as_array().map(Vec::len)), (None, Some(0)));
}

/// Set `GOODPUT_CHART_DIR` to write them to files for inspection.
#[test]
fn charts_are_drawn_for_one_and_for_several() {
    let one = measured(Reserve { headroom: 2.0, spares: 1 }, 3.0);
    let mut other = one.all[0].candidate.clone();
    (other.name, other.goodput.rate, other.safe) =
        ("h100".into(), 240.0, Some(Replica { rate: 220.0, ..other.goodput }));
    let several = of(vec![one.all[0].candidate.clone(), other], Reserve { headroom: 2.0, spares: 1 }, 3.0);
    let mut huge = given(Reserve::default(), 1.0);
    huge.demand = Demand::of_volume("90G".parse().unwrap(), 1.0);
    for (name, c) in
        [("one", one), ("several", several), ("given", given(Reserve::default(), 1.0)), ("huge", huge)]
    {
        let pictures = charts::of_capacity(&c).unwrap();
        assert!(pictures.png.starts_with(b"\x89PNG") && pictures.slide.starts_with(b"\x89PNG"));
        assert!(pictures.svg.contains("GPUs") && !pictures.svg.contains("NaN"), "{name}");
        assert!(pictures.svg.len() < 200_000, "{name}: {}", pictures.svg.len());
        if let Some(dir) = std::env::var_os("GOODPUT_CHART_DIR") {
            let dir = std::path::PathBuf::from(dir);
            std::fs::write(dir.join(format!("capacity-{name}.png")), pictures.png).unwrap();
            std::fs::write(dir.join(format!("capacity-{name}-slide.png")), pictures.slide).unwrap();
        }
    }
}
