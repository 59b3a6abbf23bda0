//! Groups of requests within a step: by class of the mix, and by turn of a conversation.

use super::compact_record::{CompactRecord, Tokens};
use super::itl::ItlTally;
use super::step::{Quantiles, SomeColumns, StepKind, by_column};
use super::tail::{ClusterPrior, quantiles_by_due};
use super::verdict::INFLATION;
use goodput_core::record::{Outcome, Phase};
use goodput_core::slo::Metric;
use goodput_core::units::ms;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Turns up to this one have a group each; later ones share groups that end at [`RANGE_ENDS`].
const LAST_SINGLE_TURN: u16 = 9;
const RANGE_ENDS: [u16; 4] = [19, 49, 99, u16::MAX];

/// Property by which requests are grouped.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum GroupBy {
    /// Class of the mix.
    Class,
    /// Turn of the conversation, from 1 for its first message.
    Turn,
}

impl GroupBy {
    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Turn => "turn",
        }
    }

    /// Returns the variant of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Class, Self::Turn].into_iter().find(|by| by.name() == name)
    }
}

/// Results of one group of requests in a step, latencies in milliseconds: a row of `groups.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Group {
    /// Property by which requests are grouped.
    pub by: GroupBy,
    /// Name of the group: the name of the class, or the turns, such as `1` or `10-19`.
    pub name: String,
    /// Measured requests.
    pub n: u64,
    /// Number of requests that failed.
    pub failed: u64,
    /// Number of requests that were cut off.
    pub cut: u64,
    /// Number of failed requests that the plan's timeout ended.
    pub failed_timeout: u64,
    /// Percentiles by metric: those with one value per request, for classes also of the ITL.
    #[serde(flatten, serialize_with = "by_column")]
    #[schemars(with = "SomeColumns")]
    pub latency: BTreeMap<Metric, Quantiles>,
    /// Mean input tokens of a completed request.
    pub input_tokens_mean: Option<f64>,
    /// Mean output tokens of a completed request.
    pub output_tokens_mean: Option<f64>,
    /// Requests completed within the window, per second.
    pub achieved_rate: f64,
}

impl Group {
    /// Returns the percentiles of a metric; empty if nothing was measured.
    pub fn quantiles(&self, metric: Metric) -> Quantiles {
        self.latency.get(&metric).copied().unwrap_or_default()
    }
}

/// Returns the groups of a step: one per class of `classes`, and one per turn (or range of turns) if any request belongs to a
/// later turn than the first. `itl` has the gaps of each class, `window` is the measured window.
pub fn groups(
    records: &[CompactRecord],
    classes: &[&str],
    itl: &ItlTally,
    window: Range<Duration>,
    kind: StepKind,
) -> Vec<Group> {
    let group = |by, name, is: &dyn Fn(&CompactRecord) -> bool| group(by, name, records, &window, kind, is);
    let mut all = Vec::new();
    for (class, name) in (0_u16..).zip(classes) {
        let mut own = group(GroupBy::Class, (*name).to_owned(), &|r| r.class == class);
        let inflation = own.quantiles(Metric::Tpot).inflation.unwrap_or(INFLATION);
        let gaps = itl.of_class(usize::from(class)).map(|pool| pool.quantiles(inflation)).filter(|q| q.n > 0);
        own.latency.extend(gaps.map(|q| (Metric::Itl, q)));
        all.push(own);
    }
    let turns: BTreeMap<u16, String> =
        records.iter().filter(|r| r.phase == Phase::Measure && r.turn > 0).map(|r| turn(r.turn)).collect();
    if turns.keys().any(|last| *last > 1) {
        for (last, name) in turns {
            all.push(group(GroupBy::Turn, name, &|r| r.turn > 0 && turn(r.turn).0 == last));
        }
    }
    all
}

/// Returns the group of a turn: the last turn in it, and its name.
fn turn(turn: u16) -> (u16, String) {
    let mut from = LAST_SINGLE_TURN + 1;
    for to in RANGE_ENDS {
        if turn < from {
            break;
        }
        if turn <= to {
            return (to, if to == u16::MAX { format!("{from}+") } else { format!("{from}-{to}") });
        }
        from = to + 1;
    }
    (turn, turn.to_string())
}

fn group(
    by: GroupBy,
    name: String,
    records: &[CompactRecord],
    window: &Range<Duration>,
    kind: StepKind,
    is: &dyn Fn(&CompactRecord) -> bool,
) -> Group {
    let own: Vec<&CompactRecord> = records.iter().filter(|r| is(r)).collect();
    let mut measured: Vec<&CompactRecord> =
        own.iter().copied().filter(|r| r.phase == Phase::Measure).collect();
    measured.sort_unstable_by_key(|r| (r.due, r.id));
    let count = |outcome| measured.iter().filter(|r| r.outcome == outcome).count() as u64;
    let mut buffer = Vec::with_capacity(measured.len());
    let mut of = |metric: Metric| {
        let values = measured.iter().filter(|r| r.counts_for(metric));
        let values = values.filter_map(|r| metric.of(&r.record())).map(ms);
        quantiles_by_due(values, &mut buffer, ClusterPrior::of_kind(kind))
    };
    let latency: BTreeMap<_, _> =
        Metric::per_request().map(|m| (m, of(m))).filter(|(_, q)| q.n > 0).collect();
    let within = |r: &&&CompactRecord| {
        r.phase != Phase::Warmup && r.ok() && window.contains(&r.last_token.unwrap_or(r.end).get())
    };
    let completed = own.iter().filter(within).count() as f64;
    let seconds = (window.end - window.start).as_secs_f64();
    let mean = |of: fn(&CompactRecord) -> Option<u32>| {
        let values = measured.iter().filter(|r| r.ok()).filter_map(|r| of(r));
        let (n, sum) = values.fold((0_u64, 0_u64), |(n, sum), v| (n + 1, sum + u64::from(v)));
        (n > 0).then(|| sum as f64 / n as f64)
    };
    Group {
        by,
        name,
        n: measured.len() as u64,
        failed: count(Outcome::Failed),
        cut: count(Outcome::Cut),
        failed_timeout: timed_out(&measured, Outcome::Failed),
        latency,
        input_tokens_mean: mean(|r| r.input_tokens.map(Tokens::get)),
        output_tokens_mean: mean(|r| r.output_tokens.map(Tokens::get)),
        achieved_rate: if seconds > 0.0 { completed / seconds } else { 0.0 },
    }
}

/// Returns the number of requests with this outcome that the client's own timeout ended.
pub(super) fn timed_out(measured: &[&CompactRecord], outcome: Outcome) -> u64 {
    measured.iter().filter(|r| r.outcome == outcome && r.is_timed_out()).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::record::{Finished, Record};

    #[test]
    fn later_turns_share_groups() {
        for (number, want) in [
            (1, "1"),
            (9, "9"),
            (10, "10-19"),
            (19, "10-19"),
            (20, "20-49"),
            (99, "50-99"),
            (100, "100+"),
            (999, "100+"),
        ] {
            assert_eq!(turn(number).1, want);
        }
    }

    #[test]
    fn requests_are_grouped_by_class_and_turn() {
        let request = |id: u64, class: u16, turn: u16, ttft_ms: u64| {
            let mut r = Record::due(id, Phase::Measure, Duration::from_millis(100 * id));
            (r.class, r.turn, r.outcome) = (class, turn, Outcome::Ok);
            r.first_token = Some(r.due + Duration::from_millis(ttft_ms));
            (r.last_token, r.end) = (r.first_token, r.due + Duration::from_millis(ttft_ms));
            (r.input_tokens, r.output_tokens) = (Some(100 * u32::from(turn)), Some(1));
            CompactRecord::from(&r)
        };
        let mut records: Vec<CompactRecord> = (0..10).map(|id| request(id, 0, 1, 20)).collect();
        records.extend((10..14).map(|id| request(id, 1, 2, 60)));
        records[13].outcome = Outcome::Failed;
        let mut itl = ItlTally::new(&[]).of_classes(3);
        let mut gaps = Record::due(0, Phase::Measure, Duration::ZERO);
        (gaps.class, gaps.outcome) = (1, Outcome::Ok);
        itl.add(&Finished::new(gaps, vec![7_000, 9_000]));
        let all = groups(
            &records,
            &["chat", "rag", "idle"],
            &itl,
            Duration::ZERO..Duration::from_secs(2),
            StepKind::List,
        );
        let got: Vec<_> = all
            .iter()
            .map(|g| (g.by, g.name.as_str(), g.n, g.failed, g.quantiles(Metric::Ttft).p50, g.achieved_rate))
            .collect();
        assert_eq!(
            got,
            [
                (GroupBy::Class, "chat", 10, 0, Some(20.0), 5.0),
                (GroupBy::Class, "rag", 4, 1, Some(60.0), 1.5),
                (GroupBy::Class, "idle", 0, 0, None, 0.0),
                (GroupBy::Turn, "1", 10, 0, Some(20.0), 5.0),
                (GroupBy::Turn, "2", 4, 1, Some(60.0), 1.5),
            ]
        );
        let gaps: Vec<u64> = all.iter().map(|g| g.quantiles(Metric::Itl).n).collect();
        assert_eq!(gaps, [0, 2, 0, 0, 0], "of the class that had any");
        assert_eq!((all[1].input_tokens_mean, all[2].input_tokens_mean), (Some(200.0), None));
        assert_eq!(
            groups(&records[..10], &[], &itl, Duration::ZERO..Duration::from_secs(1), StepKind::List),
            [],
            "one kind, one turn"
        );
    }
}
