//! The body of a template: text with placeholders for what differs between requests.

use goodput_core::named_enum;
use std::ops::Range;

/// Similarity (Jaro-Winkler) from which a name is offered in place of an unknown one.
const ALIKE: f64 = 0.8;

named_enum! {
    /// A place in the body that each request fills.
    #[derive(Hash)]
    pub enum Placeholder {
        /// The prompt as text, escaped for JSON; a conversation is joined into one text.
        Prompt = "prompt",
        /// The conversation, as a JSON list of objects with `role` and `content`.
        Messages = "messages",
        /// Name of the model.
        Model = "model",
        /// Number of tokens to answer with.
        MaxTokens = "max_tokens",
        /// The items of a request, as a JSON list of strings.
        Texts = "texts",
        /// The query of a request of documents.
        Query = "query",
    }
}

impl Placeholder {
    /// Returns true if it stands for a part of a JSON string, which needs quotes around it.
    pub const fn is_text(self) -> bool {
        match self {
            Self::Prompt | Self::Model | Self::Query => true,
            Self::Messages | Self::MaxTokens | Self::Texts => false,
        }
    }

    /// Returns a value, escaped, for the check that a filled body is JSON.
    const fn example(self) -> &'static str {
        match self {
            Self::Prompt | Self::Query => r#"two \"words\""#,
            Self::Model => "name",
            Self::MaxTokens => "16",
            Self::Messages => r#"[{"role":"user","content":"words"}]"#,
            Self::Texts => r#"["one","two"]"#,
        }
    }
}

/// A part of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text that is sent as it is.
    Text(String),
    /// A place to fill.
    Slot(Placeholder),
}

/// The body of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    text: String,
    pieces: Vec<Piece>,
}

impl Body {
    /// Parses a body with placeholders such as `{{prompt}}`.
    ///
    /// # Errors
    /// A placeholder is unknown or not closed; the message says what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((name, after)) = after.split_once("}}") else {
                return Err(format!(
                    "a placeholder is not closed: write }}}} after {{{{{}",
                    shortened(after)
                ));
            };
            let slot = Placeholder::from_name(name.trim()).ok_or_else(|| unknown(name.trim()))?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Slot(slot));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self { text: text.to_owned(), pieces })
    }

    /// Returns the body as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the parts in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns how often a placeholder occurs.
    pub fn count(&self, slot: Placeholder) -> usize {
        self.pieces.iter().filter(|piece| **piece == Piece::Slot(slot)).count()
    }

    /// Returns the body filled with examples, as JSON.
    ///
    /// # Errors
    /// It is not JSON. The message names the placeholder, or the place in the body as written.
    pub(super) fn example(&self) -> Result<serde_json::Value, String> {
        let mut filled = String::new();
        let mut places: Vec<Range<usize>> = Vec::new();
        for piece in &self.pieces {
            let from = filled.len();
            filled.push_str(match piece {
                Piece::Text(text) => text,
                Piece::Slot(slot) => slot.example(),
            });
            places.push(from..filled.len());
        }
        serde_json::from_str(&filled).map_err(|e| {
            let before: usize =
                filled.split_inclusive('\n').take(e.line().saturating_sub(1)).map(str::len).sum();
            let at = (before + e.column()).saturating_sub(1);
            let place = self.place(&places, at);
            // The message of the parser ends in its own position, in the filled text.
            let problem = e.to_string();
            let problem = problem.split(" at line ").next().unwrap_or_default().to_owned();
            format!("{problem}, {place}")
        })
    }

    /// Describes the place of an offset in the filled body, whose pieces are at `places`.
    fn place(&self, places: &[Range<usize>], at: usize) -> String {
        let mut written = 0;
        for (piece, place) in self.pieces.iter().zip(places) {
            match piece {
                Piece::Slot(slot) if place.contains(&at) => {
                    let quotes = if slot.is_text() { "quotes" } else { "no quotes" };
                    return format!("at {{{{{0}}}}}: {{{{{0}}}}} needs {quotes} around it", slot.name());
                }
                Piece::Text(_) if place.contains(&at) => {
                    written += at - place.start;
                    break;
                }
                Piece::Text(text) => written += text.len(),
                Piece::Slot(_) => written += self.text[written..].find("}}").map_or(0, |end| end + 2),
            }
        }
        let before = self.text.get(..written).unwrap_or(&self.text);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("at line {}, column {column} of the body", before.matches('\n').count() + 1)
    }
}

/// Returns the message for an unknown placeholder.
fn unknown(name: &str) -> String {
    let likeness = |slot: &Placeholder| strsim::jaro_winkler(name, slot.name());
    let nearest = Placeholder::ALL.into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let name = shortened(name);
    match nearest.filter(|slot| likeness(slot) >= ALIKE) {
        Some(slot) => format!("unknown placeholder {{{{{name}}}}}: did you mean {{{{{}}}}}?", slot.name()),
        None => {
            let all = Placeholder::ALL.map(|slot| format!("{{{{{}}}}}", slot.name())).join(", ");
            format!("unknown placeholder {{{{{name}}}}}: the placeholders are {all}")
        }
    }
}

/// Returns the beginning of a text for a message.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 24;
    let short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}
