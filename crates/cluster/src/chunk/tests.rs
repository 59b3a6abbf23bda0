use super::*;
use proptest::option::of;
use proptest::prelude::*;

fn time() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

fn text() -> impl Strategy<Value = Option<Box<str>>> {
    of(".{0,40}".prop_map(Box::from))
}

fn record() -> impl Strategy<Value = Record> {
    let names = (any::<u64>(), 0..4_usize, any::<(u16, u16, u16, u8)>(), of(any::<u64>()), of(any::<bool>()));
    let times = (time(), proptest::collection::vec(of(time()), 10), time());
    let counts = (any::<[u32; 4]>(), proptest::collection::vec(of(any::<u32>()), 5), any::<(u64, u16)>());
    let ends = (of(0..4_usize), 0..Outcome::ALL.len(), of(0..Failure::ALL.len()), of(any::<u16>()), text());
    let choices = of(any::<NonZeroU8>());
    (names, times, counts, ends, choices).prop_map(|(names, times, counts, ends, choices)| {
        let (id, phase, (class, turn, target, attempts), session, reused) = names;
        let (due, at, end) = times;
        let ([input_asked, output_asked, events, itl_over], some, (output_bytes, items)) = counts;
        let (source, outcome, failure, status, finish) = ends;
        Record {
            id,
            phase: PHASES[phase],
            class,
            worker: None,
            session,
            turn,
            target,
            conn: reused.map(|r| CONNECTIONS[usize::from(r)]),
            attempts,
            due,
            sent: at[0],
            uploaded: at[7],
            headers: at[1],
            first_event: at[2],
            first_token: at[3],
            first_content: at[4],
            last_token: at[5],
            end,
            input_asked,
            input_tokens: some[0],
            cached_tokens: some[1],
            output_asked,
            output_tokens: some[2],
            reasoning_tokens: some[3],
            token_source: source.map(|i| SOURCES[i]),
            first_event_tokens: some[4],
            events,
            itl_max: at[6],
            itl_over,
            output_bytes,
            outcome: Outcome::ALL[outcome],
            failure: failure.map(|i| Failure::ALL[i]),
            status,
            finish,
            check: None,
            items,
            audio: at[8],
            choices,
            decoding: at[9],
        }
    })
}

fn finished() -> impl Strategy<Value = Finished> {
    let gaps = proptest::collection::vec(any::<u32>(), 0..20);
    let other_texts = proptest::collection::vec(".{0,40}".prop_map(Box::from), 0..4);
    (record(), gaps, text(), of(time()), of(time()), text(), other_texts).prop_map(
        |(record, gaps_us, sample, server_ttft, retry_after, text, other_texts)| Finished {
            record,
            gaps_us,
            sample,
            server_ttft,
            retry_after,
            text,
            other_texts,
        },
    )
}

proptest! {
    /// Whatever is added comes out again, in order, wherever chunks are closed and however often one is pulled.
    #[test]
    fn what_is_added_is_pulled(
        all in proptest::collection::vec((finished(), any::<bool>()), 0..20),
        twice in any::<bool>(),
    ) {
        let (mut chunks, mut got, mut from) = (Chunks::default(), Vec::new(), 0);
        for (one, pulls) in &all {
            chunks.add(one);
            if *pulls && let Some((head, bytes)) = chunks.pull(from) {
                prop_assert_eq!((head.number, head.checksum), (from, checksum(&bytes)));
                if twice {
                    prop_assert_eq!(chunks.pull(from), Some((head, bytes.clone())));
                }
                got.extend(read(&bytes).unwrap());
                from += 1;
            }
        }
        let count = chunks.count();
        while let Some((_, bytes)) = chunks.pull(from) {
            got.extend(read(&bytes).unwrap());
            from += 1;
        }
        let sent: Vec<Finished> = all.into_iter().map(|(one, _)| one).collect();
        prop_assert_eq!((from, chunks.records(), got), (count, sent.len() as u64, sent));
    }

    #[test]
    fn cut_bytes_are_refused(one in finished(), at in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        write(&one, &mut bytes);
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(cut.is_empty() || read(cut).is_err());
    }
}

#[test]
fn a_row_without_gaps_and_texts_is_short() {
    let mut bytes = Vec::new();
    write(&Finished::new(Record::due(1, Phase::Measure, Duration::ZERO), Vec::new()), &mut bytes);
    assert_eq!(bytes.len(), ROW);
    let long = Finished { text: Some("é".repeat(LONGEST_TEXT).into()), ..read(&bytes).unwrap().remove(0) };
    bytes.clear();
    write(&long, &mut bytes);
    assert_eq!(read(&bytes).unwrap()[0].text.as_deref().map(str::len), Some(LONGEST_TEXT));
    let many = vec!["é".repeat(LONGEST_TEXT).into(); 8];
    bytes.clear();
    write(&Finished { other_texts: many, ..long }, &mut bytes);
    let lengths: Vec<usize> = read(&bytes).unwrap()[0].other_texts.iter().map(|text| text.len()).collect();
    assert_eq!(lengths, [LONGEST_OTHER_TEXTS, 0, 0, 0, 0, 0, 0, 0]);
    assert!(bytes.len() < 1 << 20, "fits into a message");
}
