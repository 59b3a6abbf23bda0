//! The messages of the TOML parser in words of this program: they name Rust's types and serde's terms, which a plan does not have.

use goodput_core::units::plain_number;

/// Least likeness (Jaro-Winkler, from 0 to 1) of a name to one that is suggested for it.
const ALIKE: f64 = 0.8;

/// Rewords a message of the parser; one of another form stays as it is.
///
/// *invalid type: integer `5`, expected struct Adaptive* becomes *a table is needed, not 5*, and *unknown field `rats`, expected one of
/// `rates`, `burst`* becomes *unknown key `rats`: did you mean `rates`? The keys here are `rates`, `burst`*.
pub fn reworded(message: &str) -> String {
    match message {
        "wanted string or table" => return "a name in quotes or a table is needed".to_owned(),
        "wanted exactly 1 element, more than 1 element" => {
            return "one key is needed in this table, not several".to_owned();
        }
        // A list of values would do for a table, in the order of its keys, if it were long enough.
        _ if message.starts_with("invalid length") && message.contains("expected struct") => {
            return "a table is needed, not a list".to_owned();
        }
        _ => {}
    }
    let wrong = ["invalid type: ", "invalid value: "].into_iter().find_map(|head| message.strip_prefix(head));
    if let Some((found, sentence)) = wrong
        .and_then(|rest| rest.split_once(", expected "))
        .filter(|(_, wanted)| wanted.contains(" written "))
    {
        return format!("{sentence}, not {}", described(found));
    }
    if let Some((found, wanted)) = wrong.and_then(|rest| rest.rsplit_once(", expected "))
        && let Some(wanted) = needed(wanted)
    {
        return format!("{wanted} is needed, not {}", described(found));
    }
    unknown(message, "unknown field ", "key")
        .or_else(|| unknown(message, "unknown variant ", "name"))
        .unwrap_or_else(|| match message.strip_prefix("missing field ") {
            Some(name) => format!("the key {name} is missing"),
            None => message.to_owned(),
        })
}

/// Returns what the parser expected, in terms of TOML; `None` for what is described by the type itself.
fn needed(wanted: &str) -> Option<&str> {
    Some(match wanted {
        "a map" | "map" => "a table",
        "a sequence" | "sequence" => "a list",
        "a string" | "string" | "str" | "path string" => "text in quotes",
        "a boolean" | "boolean" | "bool" => "true or false",
        "f64" | "f32" | "floating point number" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" | "u128" => "a whole number from 0 on",
        "i8" | "i16" | "i32" | "i64" | "isize" | "i128" => "a whole number",
        _ if wanted.starts_with("struct ") => "a table",
        _ if wanted.starts_with("enum ") => "a name in quotes or a table",
        _ if wanted.starts_with("a nonzero u") => "a whole number from 1 on",
        _ if wanted.contains("duration string") => "a duration in quotes, such as \"30s\" or \"15m\",",
        // A noun phrase of a type of ours.
        _ if wanted.starts_with("a ") || wanted.starts_with('"') => wanted,
        _ => return None,
    })
}

/// Describes the value that was found: *string "x"*, *integer `5`*, *floating point `1.5`*, *map*.
fn described(found: &str) -> String {
    let number = |rest: &str| match rest.trim_matches('`').parse::<f64>() {
        Ok(x) => plain_number(x),
        Err(_) => rest.trim_matches('`').to_owned(),
    };
    match found {
        "map" => "a table".to_owned(),
        "sequence" => "a list".to_owned(),
        _ => match found.split_once(" `") {
            Some(("integer" | "floating point", rest)) => number(rest),
            Some(("boolean", rest)) => rest.trim_matches('`').to_owned(),
            _ => found.replacen("string \"", "the text \"", 1),
        },
    }
}

/// Rewords a message about a name that is not known, followed by those that are.
fn unknown(message: &str, head: &str, noun: &str) -> Option<String> {
    let rest = message.strip_prefix(head)?;
    let (name, known) = rest.split_once(", ").unwrap_or((rest, ""));
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let plain = name.trim_matches('`');
    let likeness = |one: &&str| strsim::jaro_winkler(plain, one);
    let nearest = known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let meant = nearest.filter(|one| likeness(one) >= ALIKE);
    let list: Vec<String> = known.iter().map(|one| format!("`{one}`")).collect();
    Some(match (meant, &list[..]) {
        (_, []) => format!("unknown {noun} {name}: there is no key here"),
        (Some(meant), _) => {
            format!("unknown {noun} {name}: did you mean `{meant}`? The {noun}s here are {}", list.join(", "))
        }
        (None, _) => format!("unknown {noun} {name}; the {noun}s here are {}", list.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::insert_at;
    use crate::{Plan, schema};
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn messages_are_about_toml() {
        for (message, want) in [
            ("invalid type: integer `5`, expected struct Adaptive", "a table is needed, not 5"),
            ("invalid type: sequence, expected a string", "text in quotes is needed, not a list"),
            ("invalid type: string \"10 %\", expected f64", "a number is needed, not the text \"10 %\""),
            (
                "invalid type: string \"a, expected b\", expected a map",
                "a table is needed, not the text \"a, expected b\"",
            ),
            (
                "invalid type: floating point `2.5`, expected a nonzero u32",
                "a whole number from 1 on is needed, not 2.5",
            ),
            ("invalid value: integer `-1`, expected u32", "a whole number from 0 on is needed, not -1"),
            (
                "invalid type: integer `5`, expected an unsigned duration string",
                "a duration in quotes, such as \"30s\" or \"15m\", is needed, not 5",
            ),
            (
                "invalid type: floating point `1e300`, expected a boolean",
                "true or false is needed, not 1e300",
            ),
            (
                "unknown field `bugdet`, expected one of `over`, `budget`",
                "unknown key `bugdet`: did you mean `budget`? The keys here are `over`, `budget`",
            ),
            (
                "unknown field `x`, expected `over` or `budget`",
                "unknown key `x`; the keys here are `over`, `budget`",
            ),
            (
                "unknown variant `fixd`, expected `fixed`",
                "unknown name `fixd`: did you mean `fixed`? The names here are `fixed`",
            ),
            ("unknown field `x`, there are no fields", "unknown key `x`: there is no key here"),
            ("missing field `name`", "the key `name` is missing"),
            ("invalid length 0, expected struct Grid with 4 elements", "a table is needed, not a list"),
            ("a rate must be positive", "a rate must be positive"),
        ] {
            assert_eq!(reworded(message), want, "{message}");
        }
    }

    /// Returns every key that a schema has below `path`, dotted.
    fn keys(schema: &Value, root: &Value, path: &str, depth: usize, all: &mut BTreeSet<String>) {
        if depth == 0 {
            return;
        }
        if let Some(place) = schema["$ref"].as_str().and_then(|r| r.strip_prefix('#')) {
            keys(root.pointer(place).unwrap(), root, path, depth - 1, all);
        }
        for several in ["anyOf", "oneOf", "allOf"] {
            for one in schema[several].as_array().into_iter().flatten() {
                keys(one, root, path, depth - 1, all);
            }
        }
        for (key, of) in schema["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { format!("\"{key}\"") } else { format!("{path}.\"{key}\"") };
            keys(of, root, &path, depth - 1, all);
            all.insert(path);
        }
    }

    /// A value of another type in any key is refused in terms of TOML, not of Rust or serde.
    #[test]
    fn no_message_names_a_type_of_rust() {
        let (root, mut all) = (schema(), BTreeSet::new());
        keys(&root, &root, "", 9, &mut all);
        assert!(all.len() > 200 && all.contains("\"search\".\"adaptive\".\"budget\""), "{all:?}");
        let example: toml::Table =
            toml::from_str(include_str!("../../../tests/fixtures/plans/design.toml")).unwrap();
        let foreign = [
            "struct ",
            "sequence",
            " map",
            "u32",
            "u64",
            "f64",
            "unknown variant",
            "unknown field",
            "enum ",
            "0000000000000000",
        ];
        let (mut refused, mut wrong) = (0, Vec::new());
        for (key, value) in
            all.iter().flat_map(|key| ["7", "'x'", "[]", "{}", "true", "1e300"].map(|v| (key, v)))
        {
            let value = toml::from_str::<toml::Table>(&format!("v = {value}")).unwrap()["v"].clone();
            let mut table = example.clone();
            if insert_at(&mut table, key, value.clone()).is_err() {
                continue;
            }
            let Err(e) = Plan::from_text(&table.to_string()) else { continue };
            refused += 1;
            let e = format!("{e:#}");
            let said = e.lines().last().unwrap();
            let said = said.split('`').step_by(2).collect::<String>();
            if foreign.iter().any(|word| said.contains(*word)) {
                wrong.push(format!("{key} = {value}: {said}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(refused > 500, "{refused}");
    }
}
