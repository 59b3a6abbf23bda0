//! A report as sections: the one source of `report.md` and of `report.html`. Bodies are Markdown of the few kinds that the writers of
//! sections use (paragraphs, lists, tables, code, emphasis, charts as images), with all text from outside escaped in it.

/// A report in the order of the decision record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The answer in one line, as Markdown.
    pub title: String,
    /// The name of the plan, as Markdown.
    pub name: String,
    /// What stands below, in order.
    pub sections: Vec<Section>,
}

/// A title with what stands below it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    /// As Markdown, in one line.
    pub title: String,
    /// As Markdown; empty where there are parts alone.
    pub body: String,
    /// Sections of this one, as those of a series.
    pub parts: Vec<Section>,
}

impl Section {
    /// A section without parts.
    pub fn new(title: impl Into<String>, body: impl Into<String>) -> Self {
        Self { title: title.into(), body: body.into(), parts: Vec::new() }
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.body.trim().is_empty() && self.parts.iter().all(Self::is_empty)
    }

    fn write(&self, depth: usize, out: &mut String) {
        if self.is_empty() {
            return;
        }
        out.push_str(&format!("{} {}\n\n", "#".repeat(depth), self.title));
        if !self.body.trim().is_empty() {
            out.push_str(&format!("{}\n\n", self.body.trim_end()));
        }
        for part in &self.parts {
            part.write(depth + 1, out);
        }
    }
}

impl Document {
    /// The whole as `report.md`.
    pub fn markdown(&self) -> String {
        let mut out = format!("# {}\n\n{}\n\n", self.title, self.name);
        for section in &self.sections {
            section.write(2, &mut out);
        }
        format!("{}\n", out.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_nest_and_empty_ones_vanish() {
        let inner = Section::new("Steps", "text\n\n");
        let series = Section {
            title: "Series a".into(),
            parts: vec![inner, Section::new("Limits", " ")],
            ..Section::default()
        };
        let sections = vec![Section::new("Question", "q"), Section::new("Empty", ""), series];
        let document = Document { title: "T".into(), name: "n".into(), sections };
        assert_eq!(document.markdown(), "# T\n\nn\n\n## Question\n\nq\n\n## Series a\n\n### Steps\n\ntext\n");
    }
}
