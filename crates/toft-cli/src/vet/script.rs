//! The program that a shell script is there to start: browsers are started by such scripts.
//!
//! Nothing is run. Of the script only this is read: assignments of plain words, and `exec` of a
//! path that is made of them. A script of another form leads nowhere.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a script that are read.
const MOST: u64 = 64 << 10;

/// The last file that the script executes under a name that can be known.
pub fn leads_to(script: &Path) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    fs::File::open(script).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut known = HashMap::new();
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(word) = line.strip_prefix("exec ").and_then(first_word) {
            let path = expand(word, &known).map(PathBuf::from);
            found = path.filter(|path| path.is_absolute() && path.is_file()).or(found);
        } else if let Some((name, value)) = line.split_once('=')
            && is_name(name)
        {
            match first_word(value).filter(|word| *word == value).and_then(|w| expand(w, &known)) {
                Some(value) => known.insert(name.to_owned(), value),
                None => known.remove(name),
            };
        }
    }
    found
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The first word of a line, with its quotation marks.
fn first_word(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let end = match line.strip_prefix('"') {
        Some(rest) => rest.find('"')? + 2,
        None => line.find(char::is_whitespace).unwrap_or(line.len()),
    };
    line.get(..end)
}

/// A word with its variables replaced; `None` for anything else that a shell would do with it.
fn expand(word: &str, known: &HashMap<String, String>) -> Option<String> {
    let word = word.strip_prefix('"').and_then(|w| w.strip_suffix('"')).unwrap_or(word);
    let mut pieces = word.split('$');
    let mut text = pieces.next()?.to_owned();
    for piece in pieces {
        let (name, rest) = match piece.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => {
                let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                piece.split_at(end.unwrap_or(piece.len()))
            }
        };
        text += known.get(name)?;
        text += rest;
    }
    (!text.contains(['`', '\'', '"', '*', '?', '~', '(', ';', '&', '|', '<', '>'])).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str) -> Option<PathBuf> {
        let directory = tempfile::tempdir().expect("a folder");
        let file = directory.path().join("script");
        fs::write(&file, script).expect("a file");
        leads_to(&file)
    }

    #[test]
    fn the_file_is_found_through_variables() {
        for script in [
            "NAME=sh\nDIR=/bin\nif true; then\n  exec $DIR/$NAME $FLAGS \"$@\"\nfi\n",
            "DIR=\"/bin\"\nexec \"${DIR}/sh\" -a \"$@\"\n",
            "exec /bin/sh\nexec $UNKNOWN/sh\n",
        ] {
            assert_eq!(of(script).as_deref(), Some(Path::new("/bin/sh")), "{script}");
        }
    }

    #[test]
    fn what_cannot_be_known_leads_nowhere() {
        for script in [
            "exec $1",
            "exec sh -c x",
            "DIR=`pwd`\nexec $DIR/sh",
            "DIR=/bin\nDIR=$(pwd)\nexec $DIR/sh",
            "exec /no/such/file",
            "DIR=/bin x\nexec $DIR/sh",
            "echo exec /bin/sh",
            "exec \"/bin/sh",
            "",
        ] {
            assert_eq!(of(script), None, "{script}");
        }
    }
}
