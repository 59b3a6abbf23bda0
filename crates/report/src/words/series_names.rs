//! Short names of series, for places with little room.

use crate::escape::{clip, plain};

/// Length of a name in characters that fits next to a line.
pub(crate) const IN_A_PLOT: usize = 22;
/// Length of a name in characters that fits above a bar, or into a legend.
pub(crate) const IN_A_TABLE: usize = 40;

/// Returns names of at most `most` characters. Names that are too long lose the beginning that all of them share, which
/// tells none of them apart, and then more of their beginning: their ends differ.
pub(crate) fn short_names<'a>(all: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<String> {
    let all: Vec<String> = all.into_iter().map(plain).collect();
    if all.len() < 2 || all.iter().all(|name| name.chars().count() <= most) {
        return all.iter().map(|name| clip(name, most)).collect();
    }
    let shared = shared_prefix(&all);
    all.iter().map(|name| end_of(&name[shared..], most)).collect()
}

/// Returns the length of the beginning that all names share, in bytes: whole words only, and nothing of which a name
/// would be left empty.
fn shared_prefix(all: &[String]) -> usize {
    let Some(first) = all.first() else { return 0 };
    let is_shared = |end: usize| {
        all.iter().all(|name| name.len() > end && name.as_bytes()[..end] == first.as_bytes()[..end])
    };
    let mut ends =
        first.char_indices().filter(|(_, c)| " -_/=:,".contains(*c)).map(|(at, c)| at + c.len_utf8());
    ends.rfind(|end| is_shared(*end)).unwrap_or(0)
}

/// Returns the last characters of a name; an ellipsis marks an omission.
fn end_of(name: &str, most: usize) -> String {
    let count = name.chars().count();
    if count <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().skip(count + 1 - most).collect();
    format!("…{}", kept.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: names, and what is left of them in 16 characters.
    #[test]
    fn names_lose_what_they_share() {
        for (names, short) in [
            (&["cold", "warm"][..], &["cold", "warm"][..]),
            (&["max-num-seqs=8", "max-num-seqs=16"], &["max-num-seqs=8", "max-num-seqs=16"]), // they fit
            (&["max-num-batched-tokens=2048", "max-num-batched-tokens=512"], &["2048", "512"]),
            (&["vllm-0.11 on one A40, eager", "vllm-0.11 on one A40, graphs"], &["eager", "graphs"]),
            (&["gpu-memory-utilization=0.85", "gpu-memory-utilization=0.9"], &["0.85", "0.9"]), // no digits of a number
            (&["a-long-name-of-a-server", "a-long-name-of-a-server-2"], &["server", "server-2"]), // none is left empty
            (&["one very long name alone"], &["one very long n…"]),
            (
                &["unlike in its whole beginning, x", "another beginning altogether, y"],
                &["…le beginning, x", "…g altogether, y"],
            ),
        ] {
            assert_eq!(short_names(names.iter().copied(), 16), short);
        }
    }
}
