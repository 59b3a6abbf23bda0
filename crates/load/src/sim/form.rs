//! Forms with files (`multipart/form-data`, RFC 7578), as far as the simulated server reads them.

use memchr::memmem;

/// The parts of a form, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form<'a> {
    /// Names and contents.
    parts: Vec<(&'a str, &'a [u8])>,
}

/// End of a line.
const LINE: &[u8] = b"\r\n";

impl<'a> Form<'a> {
    /// Parses a body; `None` if it is not a whole form.
    pub(super) fn parse(content_type: Option<&str>, body: &'a [u8]) -> Option<Self> {
        let (kind, parameters) = content_type?.split_once(';')?;
        if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
            return None;
        }
        let boundary = parameters.split(';').find_map(|one| one.trim().strip_prefix("boundary="))?;
        let boundary = boundary.trim_matches('"');
        // The first boundary may come without the line break before it.
        let delimiter = format!("\r\n--{boundary}");
        let finder = memmem::Finder::new(&delimiter);
        let mut rest = match body.strip_prefix(&delimiter.as_bytes()[LINE.len()..]) {
            Some(rest) => rest,
            None => &body[finder.find(body)? + delimiter.len()..],
        };
        let mut parts = Vec::new();
        while !rest.starts_with(b"--") {
            let part = rest.strip_prefix(LINE)?;
            let end = finder.find(part)?;
            parts.push(Self::part(&part[..end])?);
            rest = &part[end + delimiter.len()..];
        }
        Some(Self { parts })
    }

    /// Parses a part: its name and its contents.
    fn part(part: &'a [u8]) -> Option<(&'a str, &'a [u8])> {
        const BLANK: &[u8] = b"\r\n\r\n";
        let end = memmem::find(part, BLANK)?;
        let head = std::str::from_utf8(&part[..end]).ok()?;
        let name = head.split("\r\n").find_map(|line| {
            let (field, value) = line.split_once(':')?;
            let value = value
                .trim()
                .strip_prefix("form-data")
                .filter(|_| field.eq_ignore_ascii_case("content-disposition"))?;
            value.split(';').find_map(|one| one.trim().strip_prefix("name=\"")?.strip_suffix('"'))
        })?;
        Some((name, &part[end + BLANK.len()..]))
    }

    /// Returns the contents of the first part of a name.
    pub(super) fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        self.parts.iter().find(|(own, _)| *own == name).map(|(_, bytes)| *bytes)
    }

    /// Returns the text of the first part of a name; `None` also if it is not UTF-8.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(name)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TYPE: &str = "multipart/form-data; boundary=XX";

    #[test]
    fn parts_are_found_by_their_names() {
        let body = b"--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--XX\r\ncontent-type: audio/wav\r\n\
            content-disposition: form-data; name=\"file\"; filename=\"name=a.wav\"\r\n\r\nRIFF\r\n--X\r\n\xff\r\n--XX--\r\n";
        for content_type in [TYPE, "Multipart/Form-Data; charset=utf-8; boundary=\"XX\""] {
            let form = Form::parse(Some(content_type), body).unwrap();
            assert_eq!((form.text("model"), form.text("other")), (Some("m"), None));
            assert_eq!(form.bytes("file"), Some(&b"RIFF\r\n--X\r\n\xff"[..]));
            assert_eq!(form.text("file"), None, "not UTF-8");
        }
        let preamble = [b"a preamble\r\n", &body[..]].concat();
        assert!(Form::parse(Some(TYPE), &preamble).unwrap().text("model") == Some("m"));
    }

    #[test]
    fn other_bodies_are_no_forms() {
        for (content_type, body) in [
            (None, "--XX--"),
            (Some("multipart/form-data"), "--XX--"),
            (Some("application/json; boundary=XX"), "--XX--"),
            (Some(TYPE), ""),
            (Some(TYPE), "{}"),
            (Some(TYPE), "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb"),
            (Some(TYPE), "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n--XX--"),
            (Some(TYPE), "--XX\r\nContent-Type: text/plain\r\n\r\nb\r\n--XX--"),
            (Some(TYPE), "--XXa\r\n\r\n--XX--"),
        ] {
            assert_eq!(Form::parse(content_type, body.as_bytes()), None, "{content_type:?}: {body}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(pieces in proptest::collection::vec("(\r\n|--XX|--|name=\"a\"|:|;|[ -~]{0,3})", 0..40)) {
            let _ = Form::parse(Some(TYPE), pieces.concat().as_bytes());
        }
    }
}
