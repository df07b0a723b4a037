//! Records as JSON, one object per line: `{"key":"…","value":"…"}`.
//!
//! JSON strings hold text only. Bytes that are not UTF-8 stand in `key_hex` and `value_hex`
//! instead, as pairs of hexadecimal digits; so every JSON reader gets text as it is, with no
//! escapes but JSON's own.

use std::fmt;

use serde_core::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::show::json;
use crate::text;

/// As [`super::Format::decode`].
pub(super) fn decode(line: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<(), String> {
    let Members(object) = serde_json::from_slice(line).map_err(|e| format!("this is no JSON object: {e}"))?;
    for (at, (name, _)) in object.iter().enumerate() {
        if object[..at].iter().any(|(other, _)| other == name) {
            return Err(format!("there are two members `{name}`"));
        }
        if !["key", "key_hex", "value", "value_hex"].contains(&name.as_str()) {
            return Err(format!("there is an unknown member `{name}`; a record has `key` and `value`"));
        }
    }
    *key = member(&object, "key")?;
    *value = member(&object, "value")?;
    Ok(())
}

/// As [`super::Format::encode`], without the line feed.
pub(super) fn encode(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend(Value::Object(json::record(key, value)).to_string().as_bytes());
}

/// The members of an object as they stand, names that stand twice included.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

/// The bytes in member `name`, or `name_hex`.
fn member(object: &[(String, Value)], name: &str) -> Result<Vec<u8>, String> {
    let hex_name = format!("{name}_hex");
    let get = |name: &str| object.iter().find(|(other, _)| other == name).map(|(_, value)| value);
    match (get(name), get(&hex_name)) {
        (Some(Value::String(text)), None) => Ok(text.as_bytes().to_vec()),
        (None, Some(Value::String(digits))) => {
            text::from_hex(digits).ok_or_else(|| format!("`{hex_name}` does not hold pairs of hexadecimal digits"))
        }
        (None, None) => Err(format!("there is neither `{name}` nor `{hex_name}`")),
        (Some(_), Some(_)) => Err(format!("there are both `{name}` and `{hex_name}`")),
        _ => Err(format!("`{name}` is not a string")),
    }
}

/// Records and their lines, and invalid lines.
#[test]
fn examples() {
    for (key, value, line) in [
        (&b"oak"[..], &b"9.80"[..], r#"{"key":"oak","value":"9.80"}"#),
        (b"a\tb", b"\"\\", r#"{"key":"a\tb","value":"\"\\"}"#),
        (b"\xff", b"\x01\xfe", r#"{"key_hex":"ff","value_hex":"01fe"}"#),
    ] {
        let mut out = Vec::new();
        encode(key, value, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), line);
    }
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for (line, complaint) in [
        ("oak", "no JSON object"),
        (r#"{"key":"a"}"#, "neither"),
        (r#"{"key":"a","value":1}"#, "not a string"),
        (r#"{"key":"a","key_hex":"61","value":""}"#, "both"),
        (r#"{"key":"a","value_hex":"6"}"#, "pairs"),
        (r#"{"key":"a","value":"","colour":""}"#, "unknown member"),
        (r#"{"key":"a","value":"","key":"b"}"#, "two members `key`"),
    ] {
        assert!(
            decode(line.as_bytes(), &mut key, &mut value).is_err_and(|message| message.contains(complaint)),
            "{line}"
        );
    }
}
