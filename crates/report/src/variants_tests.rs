use super::*;
use crate::several;
use goodput_run::fixture;

/// Two that were measured, and one that ran out of memory.
fn run() -> Run {
    fixture::variants()
}

#[test]
fn variants_stand_side_by_side_with_those_that_failed() {
    let run = run();
    assert_eq!(run.variants.len(), 3);
    let text = section(&run);
    assert!(text.contains("| small |") && text.contains("✕ failed, out of memory"), "{text}");
    let said = sentences(&run).join("\n");
    for want in
        ["Best within the SLO: large with at least", "huge could not be measured: out of memory: CUDA"]
    {
        assert!(said.contains(want), "{want}: {said}");
    }
    assert!(headline(&run).unwrap().starts_with("Of 3 variants best within the SLO: large"));
    let failed = failed(&run, "huge").unwrap();
    assert!(failed.contains("logs/huge.log") && failed.contains("```text\nlast words"), "{failed}");
    assert!(super::failed(&run, "small").is_none());
    assert!(headline(&fixture::pair()).is_none() && !any(&fixture::found()));
}

#[test]
fn a_table_fits_into_its_terminal() {
    let run = run();
    for width in [80, 100] {
        let (table, said) = terminal(&run, width);
        assert!(table.lines().all(|l| l.chars().count() <= usize::from(width)), "{table}");
        assert!(table.contains("huge") && said.contains("│ last words"), "{said}");
    }
    assert!(several::terminal::table(&run, None).contains("out of memory"));
}
