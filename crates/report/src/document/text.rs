//! Inline text as typed spans.

/// A span of text. Its content is shown verbatim: markup in it has no meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Span {
    /// Text without emphasis.
    Plain(String),
    /// Strong text: an answer, a decisive word.
    Strong(String),
    /// Emphasized text: a term, advice.
    Emphasis(String),
    /// A command, a file or a key.
    Code(String),
}

impl Span {
    /// Returns the words of the span.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Plain(words) | Self::Strong(words) | Self::Emphasis(words) | Self::Code(words) => words,
        }
    }
}

/// Returns a span without emphasis.
pub(crate) fn plain(words: impl Into<String>) -> Span {
    Span::Plain(words.into())
}

/// Returns a strong span.
pub(crate) fn strong(words: impl Into<String>) -> Span {
    Span::Strong(words.into())
}

/// Returns an emphasized span.
pub(crate) fn emphasis(words: impl Into<String>) -> Span {
    Span::Emphasis(words.into())
}

/// Returns a command, a file or a key.
pub(crate) fn code(words: impl Into<String>) -> Span {
    Span::Code(words.into())
}

/// A line of text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Text {
    spans: Vec<Span>,
}

impl Text {
    /// Returns the text of these spans.
    pub(crate) fn of(spans: impl IntoIterator<Item = Span>) -> Self {
        let mut text = Self::default();
        for span in spans {
            text.push(span);
        }
        text
    }

    /// Adds a span; merges plain text with plain text before it.
    pub(crate) fn push(&mut self, span: Span) {
        match (self.spans.last_mut(), span) {
            (Some(Span::Plain(before)), Span::Plain(more)) => before.push_str(&more),
            (_, span) if span.words().is_empty() => {}
            (_, span) => self.spans.push(span),
        }
    }

    /// Adds plain words.
    pub(crate) fn push_str(&mut self, words: &str) {
        self.push(plain(words));
    }

    /// Returns the text with `more` appended.
    #[must_use]
    pub(crate) fn and(mut self, more: Self) -> Self {
        for span in more.spans {
            self.push(span);
        }
        self
    }

    /// Returns the spans in order.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns true if there is nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.spans.iter().all(|span| span.words().trim().is_empty())
    }

    /// Returns the words without emphasis.
    pub(crate) fn words(&self) -> String {
        self.spans.iter().map(Span::words).collect()
    }
}

impl From<&str> for Text {
    fn from(words: &str) -> Self {
        Self::of([plain(words)])
    }
}

impl From<String> for Text {
    fn from(words: String) -> Self {
        Self::of([plain(words)])
    }
}

impl From<Span> for Text {
    fn from(span: Span) -> Self {
        Self::of([span])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_joins() {
        let text = Text::of([plain("a"), plain(" b"), strong("c"), plain("")]);
        assert_eq!(text.spans(), [plain("a b"), strong("c")]);
        assert_eq!(text.words(), "a bc");
        assert!(Text::from(" ").is_empty() && !text.is_empty());
    }
}
