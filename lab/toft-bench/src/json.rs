//! The files of recorded runs.

use crate::files;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;

/// Reads a file of a format whose version is in the field `version`; `known` is the one that this
/// program writes. An error names the file.
pub fn read<T: DeserializeOwned>(path: &Path, version: &str, known: u32) -> Result<T, String> {
    let whole: Value = serde_json::from_str(&files::read(path)?).map_err(files::at(path))?;
    match whole.get(version) {
        Some(found) if *found != known => {
            Err(files::at(path)(format!("format {found} is not {known}")))
        }
        // What the field is missing from says so itself.
        _ => serde_json::from_value(whole).map_err(files::at(path)),
    }
}

/// The text of a file with the elements of the field `list` at its end, each on a line: short, and
/// a difference is where it belongs.
pub fn lines(whole: &impl Serialize, list: &str) -> Result<String, String> {
    let line = |value: &Value| serde_json::to_string(value).map_err(|error| error.to_string());
    let mut whole = serde_json::to_value(whole).map_err(|error| error.to_string())?;
    let list_of = whole.as_object_mut().and_then(|whole| whole.shift_remove(list));
    let elements = list_of.as_ref().and_then(Value::as_array).into_iter().flatten();
    let elements: Vec<String> = elements.map(line).collect::<Result<_, _>>()?;
    let head = line(&whole)?;
    let head = head.strip_suffix('}').unwrap_or(&head);
    Ok(format!("{head},\"{list}\":[\n{}\n]}}\n", elements.join(",\n")))
}
