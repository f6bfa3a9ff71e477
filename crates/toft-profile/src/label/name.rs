//! Names of functions without what a reader does not need: parameters, return types, arguments of
//! templates that are the default, inline namespaces, hashes.
//!
//! A name is a path of segments, of which each may have arguments: `std::vector<int,
//! std::allocator<int> >::push_back`. In arguments only the last segment of a path is kept.
//! Arguments of arguments of arguments become `..`.

/// Arguments of templates and generics that are what they are by default.
const DEFAULTS: [&str; 8] = [
    "allocator",
    "char_traits",
    "less",
    "hash",
    "equal_to",
    "default_delete",
    "Global",
    "RandomState",
];

/// Namespaces that a standard library puts its parts into by version.
const INLINE_NAMESPACES: [&str; 5] = ["__cxx11", "__1", "__2", "__ndk1", "_V2"];

/// How deep arguments are written out.
const DEPTH: usize = 2;

/// The name as it is short enough to be read: `std::vector<int>::push_back`, `app::read`.
pub fn short(name: &str) -> String {
    let short = path(bare(name), 0);
    if short.is_empty() { name.to_owned() } else { short }
}

/// The path that tells whose function it is: without parameters and return type, of `<A as B>::c`
/// that of A, or of B where A is a parameter.
pub(super) fn subject(name: &str) -> &str {
    let bare = bare(name);
    let Some(inner) = bare.strip_prefix('<') else { return bare };
    let (of, trait_) = match find(inner, " as ") {
        Some(at) => (&inner[..at], &inner[at + " as ".len()..]),
        None => (inner, ""),
    };
    let of = of.trim_start_matches(['&', '*', '[', '(']);
    let of =
        ["mut ", "const ", "dyn "].iter().fold(of, |of, word| of.strip_prefix(*word).unwrap_or(of));
    if of.contains("::") || trait_.is_empty() { of } else { trait_ }
}

/// The path alone. Only a name with parameters may have a return type: a name of JavaScript has
/// spaces (`get size`).
fn bare(name: &str) -> &str {
    let name = without_suffix(name);
    let path = without_parameters(name);
    if path.len() < name.len() { without_return_type(path) } else { path }
}

/// Without what a compiler appends to a copy of a function.
fn without_suffix(name: &str) -> &str {
    let name = name.split(" [clone").next().unwrap_or(name);
    let name = name.strip_suffix(".cold").unwrap_or(name);
    let end = [".isra.", ".constprop.", ".part.", ".llvm.", "@"];
    let end = end.iter().filter_map(|mark| name.find(*mark)).min();
    // A name that consists of a mark keeps it.
    name[..end.filter(|&end| end > 0).unwrap_or(name.len())].trim()
}

/// Without the parameters and qualifiers at the end: `f(int) const` becomes `f`.
fn without_parameters(name: &str) -> &str {
    let mut end = name.trim_end();
    while let Some(rest) = ["const", "volatile", "&&", "&", "noexcept"]
        .iter()
        .find_map(|word| end.strip_suffix(*word).filter(|rest| rest.trim_end().ends_with(')')))
    {
        end = rest.trim_end();
    }
    if !end.ends_with(')') {
        return name;
    }
    match parts(end).into_iter().rfind(|part| part.depth == 0 && part.opens('(', end)) {
        // `(anonymous namespace)` alone, and `operator()`, are names.
        Some(part) if part.at > 0 && !end[..part.at].ends_with("operator") => &end[..part.at],
        _ => name,
    }
}

/// Without the type that a template returns, which comes first: `void f<int>` becomes `f<int>`.
fn without_return_type(name: &str) -> &str {
    if name.starts_with('<') {
        return name;
    }
    let spaces = parts(name).into_iter().filter(|part| part.depth == 0 && part.opens(' ', name));
    let mut begin = 0;
    for space in spaces {
        let last = name[begin..space.at].rsplit("::").next().unwrap_or_default();
        // `operator new`, `operator bool`, `operator<< <char>`.
        if last.starts_with("operator") {
            break;
        }
        begin = space.at + 1;
    }
    &name[begin..]
}

/// A character of a name, and how many brackets are open around it.
struct Part {
    at: usize,
    depth: usize,
}

impl Part {
    fn opens(&self, bracket: char, name: &str) -> bool {
        name[self.at..].starts_with(bracket)
    }
}

/// Every character with its depth; an opening and a closing bracket have that of what is around
/// them.
fn parts(name: &str) -> Vec<Part> {
    let mut depth = 0_usize;
    let mut all = Vec::with_capacity(name.len());
    let mut operator_end = 0;
    let mut before = ' ';
    for (at, letter) in name.char_indices() {
        if name[at..].starts_with("operator") {
            let symbol = at + "operator".len();
            let length = name[symbol..].find(|c: char| !"<>=-+*/%^&|!~,[]".contains(c));
            let length = length.unwrap_or(name.len() - symbol);
            let call = if name[symbol..].starts_with("()") { 2 } else { 0 };
            // The brackets of `operator< <int>` that open arguments come after a space.
            operator_end = symbol + length.max(call);
        }
        let is_bracket = at >= operator_end && !(letter == '>' && before == '-');
        match letter {
            '<' | '(' | '{' | '[' if is_bracket => {
                all.push(Part { at, depth });
                depth += 1;
            }
            '>' | ')' | '}' | ']' if is_bracket => {
                depth = depth.saturating_sub(1);
                all.push(Part { at, depth });
            }
            _ => all.push(Part { at, depth }),
        }
        before = letter;
    }
    all
}

/// Where a text is outside brackets.
fn find(name: &str, text: &str) -> Option<usize> {
    parts(name)
        .iter()
        .find(|part| part.depth == 0 && name[part.at..].starts_with(text))
        .map(|part| part.at)
}

/// The pieces between the separators that are outside brackets.
fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let mut begin = 0;
    for part in parts(text) {
        // Of `:::` the first two are one.
        if part.depth == 0 && part.at >= begin && text[part.at..].starts_with(separator) {
            pieces.push(&text[begin..part.at]);
            begin = part.at + separator.len();
        }
    }
    pieces.push(&text[begin..]);
    pieces
}

/// A path, its arguments short. Inside arguments only its last segment.
fn path(text: &str, depth: usize) -> String {
    let mut segments: Vec<String> = Vec::new();
    let mut is_std = false;
    for (index, segment) in split(text, "::").into_iter().enumerate() {
        let segment = segment.trim();
        // Rust's `<A as B>::f`, and `f::<A>`.
        if let Some(inner) = segment.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
            if index == 0 && depth <= DEPTH {
                let of = find(inner, " as ").map_or(inner, |at| &inner[..at]);
                segments.push(path(of, depth + 1));
            }
            continue;
        }
        if is_std && INLINE_NAMESPACES.contains(&segment) {
            continue;
        }
        is_std = segment == "std";
        segments.push(with_arguments(segment, depth));
    }
    match depth {
        0 => segments.join("::"),
        _ => segments.pop().unwrap_or_default(),
    }
}

/// A segment, its arguments short.
fn with_arguments(segment: &str, depth: usize) -> String {
    let segment = segment.strip_suffix("[abi:cxx11]").unwrap_or(segment);
    if segment.starts_with("operator") {
        return segment.to_owned();
    }
    let begin = parts(segment).into_iter().find(|part| part.depth == 0 && part.opens('<', segment));
    let (Some(begin), true) = (begin, segment.ends_with('>')) else { return segment.to_owned() };
    let name = segment[..begin.at].trim_end();
    let inner = &segment[begin.at + 1..segment.len() - 1];
    let kept: Vec<_> =
        split(inner, ",").into_iter().map(str::trim).filter(|a| !is_default(a)).collect();
    match (name.strip_prefix("basic_"), kept.as_slice()) {
        (Some(name), ["char"]) => return name.to_owned(),
        (_, []) => return name.to_owned(),
        _ if depth >= DEPTH => return format!("{name}<..>"),
        _ => {}
    }
    let kept: Vec<_> = kept.into_iter().map(|each| argument(each, depth + 1)).collect();
    format!("{name}<{}>", kept.join(", "))
}

/// An argument: a path and what is around it.
fn argument(text: &str, depth: usize) -> String {
    let end = text.trim_end_matches(['&', '*', ' ']);
    let (end, constant) = end.strip_suffix(" const").map_or((end, ""), |end| (end, " const"));
    let marks: String = text[end.len() + constant.len()..].chars().filter(|c| *c != ' ').collect();
    let start = end.find(|c: char| !matches!(c, '&' | '*')).unwrap_or(end.len());
    let (before, middle) = end.split_at(start);
    // A function, a slice, a number: as it is.
    let is_path =
        middle.starts_with(|c: char| c.is_alphabetic() || c == '_') && find(middle, " ").is_none();
    match is_path {
        true => format!("{before}{}{constant}{marks}", path(middle, depth)),
        false => text.to_owned(),
    }
}

fn is_default(argument: &str) -> bool {
    let head = argument.split('<').next().unwrap_or(argument);
    let last = head.rsplit("::").next().unwrap_or(head);
    DEFAULTS.contains(&last.trim()) && (argument.contains('<') || head.contains("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cpp_are_short() {
        for (name, expected) in [
            (
                "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create(unsigned long&, unsigned long)",
                "std::string::_M_create",
            ),
            (
                "void std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, std::allocator<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > > >::_M_realloc_insert<char const*&>(__gnu_cxx::__normal_iterator<int*, int>, char const*&)",
                "std::vector<string>::_M_realloc_insert<char const*&>",
            ),
            ("app::(anonymous namespace)::f(int) const", "app::(anonymous namespace)::f"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
            ("operator new(unsigned long)", "operator new"),
            ("app::Table::operator[](unsigned long)", "app::Table::operator[]"),
            ("std::ostream& operator<< <char>(std::ostream&, char)", "operator<< <char>"),
            ("bool operator<(A const&, B const&)", "operator<"),
            ("app::Value::operator bool() const", "app::Value::operator bool"),
            (
                "std::map<int, std::map<int, std::map<int, int> > >::insert(int)",
                "std::map<int, map<int, map<..>>>::insert",
            ),
            ("handle(int) [clone .isra.0]", "handle"),
            ("handle.constprop.0", "handle"),
            ("name[abi:cxx11](int)", "name"),
            (
                "std::function<void (int, char)>::function()",
                "std::function<void (int, char)>::function",
            ),
        ] {
            assert_eq!(short(name), expected);
        }
    }

    #[test]
    fn names_of_rust_are_short() {
        for (name, expected) in [
            ("app::read::<alloc::string::String>", "app::read"),
            ("app::read::{{closure}}", "app::read::{{closure}}"),
            ("<app::Item as core::clone::Clone>::clone", "Item::clone"),
            ("<alloc::vec::Vec<app::Item>>::push", "Vec<Item>::push"),
            (
                "<alloc::vec::Vec<T,A> as core::iter::traits::collect::Extend<&T>>::extend",
                "Vec<T, A>::extend",
            ),
            (
                "<std::collections::hash::map::HashMap<u32, alloc::string::String, std::hash::random::RandomState>>::insert",
                "HashMap<u32, String>::insert",
            ),
            ("app::run::<fn(u32) -> u32>", "app::run"),
        ] {
            assert_eq!(short(name), expected);
        }
    }

    #[test]
    fn names_of_c_stay() {
        for name in ["main", "_start", "@plt", "", "obj.coldPath", "get size", "f()"] {
            let expected = if name == "f()" { "f" } else { name };
            assert_eq!(short(name), expected);
        }
        assert_eq!(short("memcpy@@GLIBC_2.14"), "memcpy");
    }

    #[test]
    fn brackets_that_do_not_match_do_no_harm() {
        for name in [
            "a<b",
            "a>b",
            "a(b",
            "a)b",
            ">>>",
            "((((",
            "a<b>>::c(",
            "<a as b",
            "operator",
            "::",
            ":::",
            "<>",
        ] {
            let _ = (short(name), subject(name));
        }
        let nested = format!("{}{}", "<".repeat(100_000), ">".repeat(100_000));
        assert_eq!(short(&nested), nested);
        let deep = format!("{}{}", "a<".repeat(10_000), ">".repeat(10_000));
        assert_eq!(short(&deep), "a<a<a<..>>>");
    }
}
