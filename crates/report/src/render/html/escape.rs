//! Text within elements and attributes.

use crate::escape::entity;

/// Returns text escaped for elements and quoted attributes: nothing in it can start an element or end an attribute.
/// Line breaks and tabs are kept.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '<' | '>' | '"' | '\'' => out.push_str(entity(c)),
            c => out.push(c),
        }
    }
    out
}
