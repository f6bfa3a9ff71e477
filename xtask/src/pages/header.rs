//! `docs/toft-h.md`, from the comments and declarations of `toft.h`.

use crate::files;
use std::fmt::Write;

/// Where the page is.
pub const PAGE: &str = "docs/toft-h.md";

/// Where the header is.
const HEADER: &str = "crates/toft-preload/include/toft.h";

const BEFORE: &str = "\
<!-- Written by `cargo xtask docs` from crates/toft-preload/include/toft.h; a test compares. -->
# The header `toft.h`

For C and C++ developers: the calls that Toft adds to `malloc` and its family. What the family itself does is on the page
about [the interface](abi.md). `toft.hpp` is over these calls, for C++17 ([how to use it](start/c-cpp.md#what-the-header-adds)).
";

/// The page's text.
pub fn page() -> Result<String, String> {
    let header = files::read(&crate::place::root().join(HEADER))?;
    Ok(BEFORE.to_owned() + &sections(&header))
}

/// One section for each comment that begins a line and the declarations after it, up to the next
/// blank line.
fn sections(header: &str) -> String {
    let mut text = String::new();
    let mut lines = header.lines().peekable();
    let mut is_first = true;
    while let Some(line) = lines.next() {
        let Some(start) = line.strip_prefix("/* ").filter(|_| !is_first) else {
            is_first &= !line.starts_with("/* ");
            continue;
        };
        let mut comment = start.to_owned();
        while !comment.ends_with("*/") {
            let Some(more) = lines.next() else { break };
            let more = more.trim().trim_start_matches('*').trim_start();
            comment.push_str(if more.is_empty() { "\n\n" } else { " " });
            comment.push_str(more);
        }
        let mut declared = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.is_empty() && !line.starts_with('#')) {
            declared.push(line);
        }
        let define = lines.next_if(|line| line.starts_with("#define"));
        declared.extend(define);
        let names: Vec<String> = declared.iter().filter_map(|line| name(line)).collect();
        let said = comment.trim_end_matches("*/").trim_end().replace('<', "&lt;");
        if names.is_empty() {
            continue;
        }
        let _ = write!(
            text,
            "\n## {}\n\n{said}\n\n```c\n{}\n```\n",
            names.join(", "),
            declared.join("\n")
        );
    }
    text
}

/// The name that a line declares at file scope: a function's, a type's, a constant's.
fn name(line: &str) -> Option<String> {
    if line.starts_with([' ', '}']) {
        return None;
    }
    if let Some(constant) = line.strip_prefix("#define ") {
        return constant.split_whitespace().next().map(|name| format!("`{name}`"));
    }
    let before = line.split(['(', ';', '{']).next()?.trim_end();
    let name = before.rsplit([' ', '*']).next()?;
    (!name.is_empty()).then(|| format!("`{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_header_says() {
        assert_eq!(files::kept(PAGE), page().unwrap(), "run: cargo xtask docs");
    }

    #[test]
    fn each_declaration_has_a_section() {
        let header = "/* About all. */\n#ifndef X\n#define X\n\n/* Says <a>.\n * More. */\nint a(int b);\nvoid *c(void);\n\n\
                      /* A flag. */\n#define FLAG 1u\n";
        assert_eq!(
            sections(header),
            "\n## `a`, `c`\n\nSays &lt;a>. More.\n\n```c\nint a(int b);\nvoid *c(void);\n```\n\
             \n## `FLAG`\n\nA flag.\n\n```c\n#define FLAG 1u\n```\n"
        );
        let page = page().unwrap();
        let header = files::kept(HEADER);
        let functions: Vec<String> =
            header.lines().filter(|line| line.ends_with(");")).filter_map(name).collect();
        assert!(functions.len() > 20, "{functions:?}");
        for function in functions {
            assert!(page.contains(&function), "{function}");
        }
    }
}
