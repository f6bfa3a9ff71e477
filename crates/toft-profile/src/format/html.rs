//! A page to search, sort and drill down in: one HTML file that needs nothing else.

use super::escape;
use crate::Profile;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page.
pub fn write(profile: &Profile) -> String {
    let title = format!("Heap of {} ({})", profile.name, profile.pid);
    // `</script` would end the data, whatever it is inside of.
    let data = profile.to_json().replace('<', "\\u003c");
    let parts = [("{{title}}", escape(&title)), ("{{style}}", STYLE.to_owned())];
    let mut page = PAGE.to_owned();
    for (place, text) in parts {
        page = page.replacen(place, &text, 1);
    }
    // Last, so that nothing in the data is taken for a place.
    let Some((before, after)) = page.split_once("{{data}}") else { return page };
    format!("{before}{}{}", data.trim_end(), after.replacen("{{script}}", SCRIPT, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::samples::*;

    #[test]
    fn the_data_cannot_end_the_script_and_nothing_is_from_elsewhere() {
        let page = write(&profile(vec![row("</script><b>{{script}}", 1, 16, 3)]));
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.contains("\\u003c/script>\\u003cb>{{script}}"));
        assert!(!page.contains("{{data}}") && !page.contains("{{style}}"));
        for elsewhere in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
    }
}
