//! Characters that set the direction of the text around them, so that what is shown differs from what is there (CVE-2021-42574).

/// Returns true for a character that sets the direction of text.
pub const fn is_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns true for characters that change the direction or the visibility of their neighbours, and for two that XML does not
/// allow, not even escaped.
pub const fn is_deceptive(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}
