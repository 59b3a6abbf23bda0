use super::*;
use crate::document::Document;
use crate::render::markdown::blocks;
use crate::render::terminal::{self, Screen};
use crate::sections::brief as for_terminal;
use goodput_run::fixture;

/// Returns a run of two variants that were measured, and one that ran out of memory.
fn run() -> Run {
    fixture::variants()
}

#[test]
fn variants_stand_side_by_side_with_those_that_failed() {
    let run = run();
    assert_eq!(run.variants.len(), 3);
    let text = blocks(&section(&run), 3);
    assert!(text.contains("| small |") && text.contains("✕ failed, out of memory"), "{text}");
    let said = sentences(&run).join("\n");
    for want in
        ["Best within the SLO: large with at least", "huge could not be measured: out of memory: CUDA"]
    {
        assert!(said.contains(want), "{want}: {said}");
    }
    assert!(words::headline(&run).starts_with("Of 3 variants best within the SLO: large"));
    let failed = blocks(&failed(&run, "huge").unwrap(), 3);
    assert!(failed.contains("logs/huge.log") && failed.contains("```text\nlast words"), "{failed}");
    assert!(super::failed(&run, "small").is_none());
    assert!(!any(&fixture::pair()) && !any(&fixture::found()));
}

#[test]
fn a_table_fits_into_its_terminal() {
    let run = run();
    for width in [80, 100] {
        let screen = Screen { width, ..Screen::default() };
        let table = terminal::render(&for_terminal::table(&run), &screen);
        let said = terminal::render(&for_terminal::answer(&run, &[]), &screen);
        assert!(table.lines().all(|l| l.chars().count() <= usize::from(width)), "{table}");
        assert!(table.contains("huge") && said.contains("│ last words"), "{said}");
    }
    let document: Document = for_terminal::table(&run);
    assert!(terminal::render(&document, &Screen::default()).contains("out of memory"));
}
