//! A page to search, sort and drill down in: one HTML file that needs nothing else.

use std::collections::BTreeMap;

use super::{CALLERS, escape};
use crate::{Profile, Row};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page.
pub fn write(profile: &Profile) -> String {
    let title = format!("Heap of {} ({})", profile.name, profile.pid);
    // `</script` would end the data, whatever it is inside of.
    let data = profile.to_json().replace('<', "\\u003c");
    let title = escape(&title);
    let callers = callers(profile).replace('<', "\\u003c");
    let parts = [
        ("{{title}}", title.as_str()),
        ("{{style}}", STYLE),
        ("{{data}}", data.trim_end()),
        ("{{callers}}", callers.as_str()),
        ("{{script}}", SCRIPT),
    ];
    // In the order of their places, so that nothing that was put in is taken for a place.
    let mut page = String::new();
    let mut rest = PAGE;
    for (place, text) in parts {
        let Some((before, after)) = rest.split_once(place) else { continue };
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page + rest
}

/// Returns the callers of each row of library code, with their bytes, as JSON. The key is the first
/// call site of the row.
fn callers(profile: &Profile) -> String {
    let of_row = |row: &Row| profile.callers(row).into_iter().take(CALLERS).collect::<Vec<_>>();
    let callers: BTreeMap<_, _> = profile
        .by_place()
        .iter()
        .map(|row| (format!("{:#x}", row.location.site), of_row(row)))
        .filter(|(_, callers)| !callers.is_empty())
        .collect();
    serde_json::to_string(&callers).unwrap_or_else(|_| "{}".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::samples::*;

    #[test]
    fn a_name_is_no_place_in_the_page() {
        let mut profile = profile(vec![row("f", 1, 16, 3)]);
        profile.name = "{{data}}{{script}}{{style}}".into();
        let page = write(&profile);
        assert!(page.contains("<title>Heap of {{data}}{{script}}{{style}} (7)</title>"), "{page}");
        assert_eq!(page.matches("\"toft_profile\":").count(), 1);
        assert!(page.contains("id=\"data\">{\"toft_profile\":"), "{page}");
        assert!(page.contains(SCRIPT) && page.contains(STYLE));
    }

    #[test]
    fn the_data_cannot_end_the_script_and_nothing_is_from_elsewhere() {
        let page = write(&profile(vec![row("</script><b>{{script}}", 1, 16, 3)]));
        assert_eq!(page.matches("</script>").count(), 3);
        assert!(page.contains("\\u003c/script>\\u003cb>{{script}}"));
        assert!(!page.contains("{{data}}") && !page.contains("{{style}}"));
        for elsewhere in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
    }
}
