//! One-sentence answers for each side but the baseline.

use super::equal::Equal;
use super::lost::Lost;
use super::noise::{Beyond, Change, Infinite};
use super::{Column, Place, Row, Side};
use goodput_core::slo::Metric;
use serde::Serialize;

/// The result of comparing a side with the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// Better in every figure that differs beyond noise.
    Better,
    /// Worse in every figure that differs beyond noise.
    Worse,
    /// Better in some figures, worse in others.
    Mixed,
    /// No figure differs beyond noise.
    Same,
    /// The data does not decide.
    Undecided,
}

/// The answer for one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Label of the side.
    pub side: String,
    /// Label of the baseline.
    pub against: String,
    /// Result of the comparison.
    pub finding: Finding,
    /// The answer as a sentence.
    pub text: String,
}

impl Answer {
    /// Replaces the reason for an undecided answer.
    pub(super) fn because(self, why: &str) -> Self {
        let text = format!("{} against {}: undecided, {why}.", self.side, self.against);
        Self { text, ..self }
    }
}

/// Maximum number of differences named in the sentence.
const TOLD: usize = 3;

/// The input of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The compared figures.
    pub rows: &'a [Row],
    /// The compared levels.
    pub levels: &'a [Equal<'a>],
    /// Turns that a side could not sustain.
    pub lost: &'a [Lost],
    /// True if the sides were measured in turns.
    pub alternating: bool,
}

/// Makes the answer for one side.
pub fn of(sides: &[Side], side: usize, of: &Found<'_>) -> Answer {
    let Found { rows, levels, lost, alternating } = *of;
    let (label, against) = (sides[side].label.clone(), sides[0].label.clone());
    let claims: Vec<Claim<'_>> = rows
        .iter()
        .filter(|r| !alternating || r.place == Place::Pooled)
        .map(|row| Claim { row, change: &row.changes[side - 1] })
        .filter(|c| c.change.share.is_some() || c.change.absolute.is_some() || c.change.beyond == Beyond::Yes)
        .collect();
    let lost: Vec<&Lost> = lost.iter().filter(|l| l.side == label).collect();
    // Turns that one side could not sustain rule out the finding "same".
    let not_taken: Vec<&&Lost> = lost.iter().filter(|l| l.worse().is_some()).collect();
    let mut found: Vec<&Claim<'_>> =
        claims.iter().filter(|c| c.better().is_some() && c.change.beyond == Beyond::Yes).collect();
    found.sort_by(|a, b| a.rank().total_cmp(&b.rank()));
    let known = claims.iter().any(|c| c.change.beyond != Beyond::Unknown);
    let any = |better: bool| {
        found.iter().any(|c| c.better() == Some(better))
            || not_taken.iter().any(|l| l.worse() == Some(!better))
    };
    let finding = match (any(true), any(false), known) {
        (true, true, _) => Finding::Mixed,
        (true, false, _) => Finding::Better,
        (false, true, _) => Finding::Worse,
        (false, false, true) => Finding::Same,
        (false, false, false) => Finding::Undecided,
    };
    let gone = [&sides[0], &sides[side]].map(Side::gone);
    let finding = match gone {
        [Some(_), _] => Finding::Undecided,
        [None, Some(_)] if finding == Finding::Mixed || any(true) => Finding::Mixed,
        [None, Some(_)] => Finding::Worse,
        [None, None] => finding,
    };
    // This is a maximum: a figure known at fewer levels says so itself.
    let over = claims.iter().filter_map(|c| c.change.levels).max().unwrap_or(0);
    let together = if over > 1 { format!(" over {over} rates") } else { String::new() };
    let text = match finding {
        Finding::Undecided if gone[0].is_some() => {
            format!("{label} against {against}: undecided, since the server of {against} stopped answering.")
        }
        Finding::Undecided => {
            format!("{label} against {against}: undecided, {}.", why_not(levels, alternating))
        }
        Finding::Same => {
            let would: Vec<String> = detectable(&claims);
            let would = if would.is_empty() {
                String::new()
            } else {
                format!("; a change of {} or more would have been, nine times in ten", would.join(", "))
            };
            format!("{label} against {against}: no difference beyond noise was found{together}{would}.")
        }
        _ => {
            let what = Said { finding, alternating, gone: gone[1], not_taken: &not_taken, over };
            format!("{label} is {}", what.of(found, &against, &together))
        }
    };
    Answer { side: label, against, finding, text }
}

/// Context of the sentence besides the figures.
struct Said<'a> {
    finding: Finding,
    alternating: bool,
    gone: Option<u32>,
    not_taken: &'a [&'a &'a Lost],
    over: usize,
}

impl Said<'_> {
    /// Returns the end of the sentence: the direction of the difference, and the figures.
    fn of(&self, mut found: Vec<&Claim<'_>>, against: &str, together: &str) -> String {
        let timed = self.alternating
            && self.gone.is_none()
            && self.not_taken.is_empty()
            && found.iter().all(|c| c.is_time() && c.change.infinite.is_none());
        let word = match (self.finding, timed) {
            (Finding::Better, true) => "faster",
            (Finding::Worse, true) => "slower",
            (Finding::Better, false) => "better",
            (Finding::Worse, false) => "worse",
            _ => "better in some and worse in some",
        };
        // Only the most significant level of each figure is named.
        let mut seen = Vec::new();
        let all = found.len();
        found.retain(|c| {
            let new = !seen.contains(&c.row.column);
            seen.push(c.row.column);
            new
        });
        let told: Vec<String> = found.iter().take(TOLD).map(|c| c.words(self.over)).collect();
        let more = all.saturating_sub(told.len());
        let more = if more > 0 { format!("; {more} more in the table") } else { String::new() };
        let mut why: Vec<String> = Vec::new();
        why.extend(self.gone.map(|step| format!("its server stopped answering in step {step}")));
        why.extend(self.not_taken.iter().map(|l| l.words()));
        why.extend(told);
        format!("{word} than {against}{together}: {}{more}.", why.join("; "))
    }
}

/// One row of the comparison for one side.
struct Claim<'a> {
    row: &'a Row,
    change: &'a Change,
}

impl Claim<'_> {
    /// Returns true if the change is an improvement; `None` if the direction is unknown or has no better end.
    fn better(&self) -> Option<bool> {
        let up = match (self.change.infinite, self.change.share.or(self.change.absolute)) {
            (Some(infinite), _) => infinite == Infinite::New,
            (None, Some(d)) => d > 0.0,
            (None, None) => return None,
        };
        Some(self.row.column.more_is_better()? == up)
    }

    /// Returns the sort key: goodput first, then failures and infinite percentiles, then by p-value; other whole-run
    /// figures last.
    fn rank(&self) -> f64 {
        match (self.row.column, self.row.place) {
            (Column::Goodput, _) => -2.0,
            // Failed requests come before late ones.
            (Column::Failures, Place::Pooled) => -1.0,
            _ if self.change.infinite.is_some() => -0.5,
            (_, Place::Whole) => 2.0,
            _ => self.change.p.unwrap_or(0.0),
        }
    }

    /// Returns true if the figure is a latency.
    fn is_time(&self) -> bool {
        matches!(self.row.column, Column::Latency(..))
    }

    /// Formats the change, `p99 TTFT at 20 req/s is 15 % [12, 18] higher`; adds the number of levels if it is below
    /// `over`.
    fn words(&self, over: usize) -> String {
        let fewer = self.change.levels.filter(|n| *n < over);
        let at = fewer.map_or(String::new(), |n| format!(" at {n} of the {over} rates"));
        format!("{}{at}", self.change_words())
    }

    fn change_words(&self) -> String {
        let place = match self.row.place {
            Place::At(level) => format!(" at {level}"),
            Place::Whole | Place::Pooled => String::new(),
        };
        let title = self.row.column.title();
        match self.change.infinite {
            Some(Infinite::New) => return format!("{title}{place} is now that of requests that failed"),
            Some(Infinite::Old) => {
                return format!("{title}{place} no longer is that of requests that failed");
            }
            None => {}
        }
        let points = self.row.column.is_share();
        let (change, interval, unit) = if points {
            (self.change.absolute, self.change.absolute_interval, "pp")
        } else {
            (self.change.share, self.change.interval, "%")
        };
        let Some(share) = change else {
            return format!("{title}{place} is there now, and the baseline has none");
        };
        let way = if share >= 0.0 { "higher" } else { "lower" };
        let sign = if share >= 0.0 { 1.0 } else { -1.0 };
        let interval = interval.map_or(String::new(), |[l, h]| {
            let (l, h) = if sign > 0.0 { (l, h) } else { (-h, -l) };
            format!(" [{}, {}]", bare(l), bare(h))
        });
        let verb = if self.row.column == Column::Failures { "are" } else { "is" };
        format!("{title}{place} {verb} {} {unit}{interval} {way}", bare(share.abs()))
    }
}

/// Formats the smallest detectable changes of goodput, median and tail latencies.
fn detectable(claims: &[Claim<'_>]) -> Vec<String> {
    let wanted = [
        Column::Goodput,
        Column::Latency(Metric::Ttft, 500),
        Column::Latency(Metric::Ttft, 990),
        Column::Latency(Metric::Tpot, 500),
    ];
    let of = |column: &Column| {
        let own = claims.iter().filter(|c| c.row.column == *column);
        let best = own.filter_map(|c| c.change.detectable).min_by(f64::total_cmp)?;
        // A detectable change of tenfold or more is not informative.
        let best = Some(best).filter(|share| *share < 9.0)?;
        Some(format!("{} % in {}", bare(best), column.title()))
    };
    wanted.iter().filter_map(of).collect()
}

fn why_not(levels: &[Equal<'_>], alternating: bool) -> &'static str {
    match (levels.is_empty(), alternating) {
        (true, _) => {
            "since there is no interval for its goodput, and no level that both measured and could take"
        }
        (false, true) => {
            "since too few pairs of steps were measured: at least four are needed; give it more time with --budget"
        }
        (false, false) => {
            "since too few requests were measured at the levels that both measured, and no interval tells the noise of the goodput"
        }
    }
}

/// Formats a share in per cent without a plus sign, with two digits or more if it is small.
pub fn bare(share: f64) -> String {
    let percent = share * 100.0;
    if percent.is_infinite() {
        return if percent > 0.0 { "∞" } else { "−∞" }.to_owned();
    }
    let text = match percent.abs() {
        p if p >= 9.95 => format!("{percent:.0}"),
        p if p >= 0.095 => format!("{percent:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{percent:.2}"),
    };
    if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') {
        "0".to_owned()
    } else {
        text.replace('-', "−")
    }
}

/// Formats a share in per cent with its sign: `+15 %`.
pub fn signed(share: f64) -> String {
    let text = bare(share);
    let sign = if share > 0.0 && text != "0" { "+" } else { "" };
    format!("{sign}{text} %")
}

/// Returns the notes that the reader needs to interpret the comparison.
pub(super) fn notes(sides: &[Side], levels: &[Equal<'_>], alternating: bool, rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    if super::side::one_series(sides) {
        notes.push("The tiers are judged on the same steps: their latencies are the same, and only what each allows differs.".to_owned());
    } else if levels.is_empty() {
        notes.push(
            "There is no level that both measured and could take, so no latencies are compared: `goodput compare --measure` measures both in \
             turns at equal rates, or let both plans list the same rates (search.rates)."
                .to_owned(),
        );
    } else if !alternating {
        notes.push(
            "Intervals of latencies are for the chance of the requests that came, by blocks of them; near saturation, where slow requests come in \
             long clusters, they are too narrow (docs/compare.md has by how much). That a server is slower on one day than on another is in the \
             difference as well: `goodput compare --measure` measures both in turns, and several runs a side show how much runs differ."
                .to_owned(),
        );
    }
    let infinite = rows.iter().any(|r| r.values.iter().flatten().any(|v| v.is_infinite()));
    if infinite {
        notes.push("∞: so many requests failed that the percentile is theirs; a request that failed is later than any other.".to_owned());
    }
    if rows.iter().any(|r| r.changes.iter().any(|c| c.basis == super::Basis::Brackets)) {
        notes.push(
            "Goodputs with a bracket and no interval differ only where the brackets have no rate in common."
                .to_owned(),
        );
    }
    notes
}

/// Returns the notes on sides with several runs.
pub(super) fn notes_of_groups(rows: &[Row]) -> Vec<String> {
    let mut notes = vec![
        "Changes are between the means over runs, and their intervals hold what differs from run to run; a single run is held against what the next \
         run of the other side would be."
            .to_owned(),
    ];
    let short =
        rows.iter().filter(|r| r.each.iter().any(|own| own.len() > 1 && own.iter().any(Option::is_none)));
    let named: Vec<&str> = short.map(|r| r.name.as_str()).take(TOLD).collect();
    if !named.is_empty() {
        notes.push(format!(
            "Not every run has a figure for {}: `each` in compare.json has those of every run.",
            named.join(", ")
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_short() {
        for (share, text) in [
            (0.15, "+15 %"),
            (-0.052, "−5.2 %"),
            (0.0004, "+0.04 %"),
            (0.0, "0 %"),
            (-0.996, "−100 %"),
            (0.0000001, "0 %"),
            (f64::INFINITY, "+∞ %"),
        ] {
            assert_eq!(signed(share), text);
        }
    }
}
