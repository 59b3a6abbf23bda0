use super::*;

/// Control sequences in every kind of block.
#[test]
fn a_terminal_obeys_nothing() {
    let evil = "a|b\nc <script>\u{1b}[31m\u{1b}]0;t\u{7}\u{9b}1m\u{202e}\u{2061}x\u{2060}";
    let t = || Text::from(evil);
    let table = Table::new(
        vec![Column::text(evil).short(evil), Column::number("n")],
        vec![
            vec![Cell::text(evil), Cell::figure(evil, None)],
            vec![Cell::marked(Mark::Bad, evil), Cell::Empty],
        ],
    );
    let blocks = vec![
        Block::Paragraph(t()),
        Block::Heading(t()),
        Block::List(vec![t()]),
        Block::Outline(vec![Entry::new(Bullet::Number(1), evil).over(vec![Entry::new(Bullet::Bar, evil)])]),
        Block::Legend(vec![t()]),
        Block::Facts(vec![(t(), t())]),
        Block::Caveats(vec![Advice { text: t(), advice: t() }]),
        Block::Warning(t()),
        table.clone().into(),
        table.set(Setting::Bare).into(),
        Block::Code { language: "text", text: evil.into() },
    ];
    let sections = vec![Section::titled(evil, blocks)];
    let document =
        Document { title: t(), lead: vec![Block::Paragraph(t())], sections, ..Document::default() };
    for screen in [Screen::default(), Screen { width: 60, wraps: true, colour: false }] {
        let text = render(&document, &screen);
        let bad =
            text.chars().find(|c| (c.is_control() && *c != '\n') || ('\u{2028}'..='\u{206f}').contains(c));
        assert!(bad.is_none() && text.contains("␛[31m"), "{bad:?}: {text}");
    }
    let painted = render(&document, &Screen { colour: true, ..Screen::default() });
    let ours = painted.matches('\u{1b}').count();
    let colours = ["\u{1b}[33m", "\u{1b}[31m", "\u{1b}[0m"].iter().map(|c| painted.matches(c).count());
    assert_eq!(ours, colours.sum::<usize>(), "the colours are ours: {painted}");
}

#[test]
fn lines_break_between_words_and_keep_their_place() {
    let facts = vec![("requests".into(), "one two three".into())];
    let entry = Entry::line("one two three").over(vec![Entry::new(Bullet::Arrow, "seven eight nine")]);
    let caveat = Advice { text: "four five six".into(), advice: "see a-b-c/d-e.png".into() };
    let blocks = vec![Block::Facts(facts), Block::Outline(vec![entry]), Block::Caveats(vec![caveat])];
    let document = Document { sections: vec![Section::untitled(blocks)], ..Document::default() };
    let screen = Screen { width: 18, wraps: true, colour: false };
    assert_eq!(
        render(&document, &screen),
        "requests  one two\n          three\none two three\n  → seven eight\n    nine\n! four five six\n  → see\n    a-b-c/d-e.png"
    );
}

#[test]
fn a_narrow_terminal_drops_the_least_telling_columns() {
    let column = |name: &str, priority| Column::number(name).with(priority);
    let columns = vec![
        Column::number("a"),
        column("b", Priority::Droppable(2)),
        column("c", Priority::Droppable(1)),
        column("d", Priority::From(40)),
        column("e", Priority::Below(40)),
        Column::number("f").only(Place::Page),
    ];
    let table = Table::new(columns, Vec::new());
    for (width, want) in [(100, vec![0, 1, 2, 3]), (39, vec![0, 1, 4]), (25, vec![0, 4])] {
        assert_eq!(super::shown(&table, width), want, "{width}");
    }
}
