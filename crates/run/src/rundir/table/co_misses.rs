//! The co-miss cell in a row of `limits.csv`: `ttft.p99=9/4/310/402/288`, several entries separated by `;`.

use super::decode::CellValue;
use goodput_stats::stats::co_misses::CoMisses;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Separator of two limits. Names of classes contain neither separator.
const BETWEEN: char = ';';
/// Separator of the counts of one limit.
const COUNTS: char = '/';

/// Co-misses in one cell. Each entry has the other limit, requests that missed both, clusters, product, this limit's
/// squares and the other's.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CoMissCell(pub(super) Vec<CoMisses>);

impl Serialize for CoMissCell {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let one = |c: &CoMisses| {
            let counts = [c.requests, c.clusters, c.product, c.own_sq, c.other_sq].map(|n| n.to_string());
            format!("{}={}", c.limit, counts.join(&COUNTS.to_string()))
        };
        to.serialize_str(&self.0.iter().map(one).collect::<Vec<_>>().join(&BETWEEN.to_string()))
    }
}

impl<'de> Deserialize<'de> for CoMissCell {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let cell = <&str>::deserialize(from)?;
        let all = cell.split(BETWEEN).filter(|one| !one.is_empty());
        all.map(|one| parsed(one).ok_or_else(|| D::Error::custom(format_args!("holds {one:?}"))))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

fn parsed(one: &str) -> Option<CoMisses> {
    let (limit, counts) = one.rsplit_once('=')?;
    let counts: Vec<u64> =
        counts.split(COUNTS).map(|n| n.parse().ok().filter(CellValue::is_sound)).collect::<Option<_>>()?;
    let [requests, clusters, product, own_sq, other_sq] = counts.try_into().ok()?;
    Some(CoMisses { limit: limit.to_owned(), requests, clusters, product, own_sq, other_sq })
}
