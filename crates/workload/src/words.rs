//! Text of common words, which are about one token each in most vocabularies.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Exactly 256 distinct words, so that a byte picks one.
const WORDS: &str = "able about above accept across act add after again age agree air all allow along also always animal \
answer any appear apple area arm around arrive art ask away back bad bank base bath beach bear beat because become bed \
before begin behind believe best better between big bird black blood blue board boat body bone book both bottom box boy \
branch bread break bright bring brother brown build burn business busy buy call camp can car card care carry case cat \
catch cause center chair chance change check child choose church circle city clean clear climb clock close cloth cloud \
coat cold color come common cook cool copy corner cost cotton count country course cover cross crowd cry cup current cut \
dance dark day dead deal death decide deep degree desert design dinner direct doctor dog dollar door double down draw \
dream dress drink drive drop dry during dust each ear early earth east easy eat edge effect egg eight electric end \
energy engine enjoy enough enter equal even evening event ever every exact example eye face fact fair fall family \
famous far farm fast father fear feed feel few field fight figure fill final find fine finger finish fire first fish \
fit five flat floor flow flower fly follow food foot force forest form forward four free fresh friend from front fruit \
full game garden gas gather general gentle girl give glad glass go gold good grand grass gray great green ground group \
grow guess guide hair half hand happy hard hat head hear";

fn word(i: u8) -> &'static str {
    static LIST: std::sync::LazyLock<Vec<&'static str>> =
        std::sync::LazyLock::new(|| WORDS.split_whitespace().collect());
    LIST[usize::from(i)]
}

/// Appends `n` random words, separated by spaces.
pub(crate) fn push_words(text: &mut String, n: usize, rng: &mut ChaCha8Rng) {
    text.reserve(n * 6);
    for _ in 0..n {
        push(text, rng.random());
    }
}

fn push(text: &mut String, i: u8) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(word(i));
}

/// Number of distinct words.
pub const CENSUS: usize = 256;

/// Returns the words of a part of the list, each once.
pub fn census(part: std::ops::Range<usize>) -> String {
    part.map(|i| word(i as u8)).collect::<Vec<_>>().join(" ")
}

/// Number of words of a nonce.
pub(crate) const NONCE_WORDS: usize = 6;

/// Appends six words that encode (attempt, step, id). They differ for every request of a run, including a step measured
/// again after a resume, and for neighbouring ids from the first words on, so that no two prompts share more than a
/// word or two.
///
/// (attempt, step, id) is packed into 48 bits (5, 11 and 32). Multiplying by an odd constant and folding the high half
/// into the low one are bijections on 48 bits, so no two requests get equal words.
pub(crate) fn push_nonce(text: &mut String, seed: u32, attempt: u32, step: u32, id: u64) {
    const MASK: u64 = (1 << 48) - 1;
    let (attempt, step) = (u64::from(attempt & 0x1f), u64::from(step & 0x7ff));
    let mut x = (attempt << 43 | step << 32 | (id & 0xffff_ffff)) ^ (u64::from(seed) << 8);
    for _ in 0..2 {
        x = x.wrapping_mul(0x9e37_79b9_7f4b) & MASK;
        x ^= x >> 24;
    }
    for byte in &x.to_le_bytes()[..NONCE_WORDS] {
        push(text, *byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn there_are_256_distinct_words() {
        let words: Vec<_> = WORDS.split_whitespace().collect();
        assert_eq!(words.len(), 256);
        assert_eq!(words.iter().collect::<HashSet<_>>().len(), 256);
    }

    #[test]
    fn nonces_never_repeat_and_share_no_prefix() {
        let again = |attempt, step, id| {
            let mut s = String::new();
            push_nonce(&mut s, 1, attempt, step, id);
            s
        };
        let nonce = |step, id| again(0, step, id);
        let mut seen = HashSet::new();
        for step in 0..40 {
            for id in 0..2_000 {
                assert!(seen.insert(nonce(step, id)), "step {step} id {id}");
                assert!(seen.insert(again(1 + step % 31, step, id)), "step {step} id {id}, measured again");
            }
        }
        let first: HashSet<_> =
            (0..100).map(|id| nonce(1, id).split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
        assert!(first.len() > 95, "neighbours differ within the first two words: {}", first.len());
    }
}
