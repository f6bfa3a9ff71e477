//! Numbers and text as people read them.

/// `82.1 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be printed as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `1 234 567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A time, in the unit that it is read best in.
pub fn duration(seconds: f64) -> String {
    match seconds {
        ..1e-3 => format!("{:.1} us", seconds * 1e6),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        ..120.0 => format!("{seconds:.1} s"),
        _ => format!("{:.1} min", seconds / 60.0),
    }
}

/// A name as it can be shown in a line: others chose it, and what steers a terminal or ends a line
/// is no part of it. Everything that is printed of names goes through here, or through [`fit`].
pub fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// The text in one line, or as much of its beginning as fits.
pub fn fit(text: &str, width: usize) -> String {
    let text = plain(text);
    if text.chars().count() <= width {
        return text;
    }
    let mut short: String = text.chars().take(width.saturating_sub(3)).collect();
    short.push_str("...");
    short
}

/// A place, `function at file.c:12 in FILE`, or as much of it as fits. The file goes first, then
/// the line, then the namespaces of the function. The function's own name is cut last.
pub fn fit_place(place: &str, width: usize) -> String {
    let place = plain(place);
    let fits = |text: &str| text.chars().count() <= width;
    let without_file = place.rsplit_once(" in ").map_or(&*place, |(rest, _)| rest);
    let function = without_file.rsplit_once(" at ").map_or(without_file, |(rest, _)| rest);
    if let Some(whole) = [&*place, without_file, function].into_iter().find(|text| fits(text)) {
        return whole.to_owned();
    }
    let inner = function.match_indices("::").map(|(at, _)| format!("...{}", &function[at..]));
    inner
        .into_iter()
        .find(|text| fits(text))
        .unwrap_or_else(|| fit(function.rsplit("::").next().unwrap_or(function), width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well_at_every_border() {
        let shown: Vec<_> =
            [0, 1023, 1024, 1536, 1_048_530, 1_048_576, u64::MAX].into_iter().map(bytes).collect();
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "16.0 EiB"]
        );
    }

    #[test]
    fn what_steers_a_terminal_is_not_shown() {
        assert_eq!(
            plain("a\x1b[2Jb\nc\r\u{7f}\u{9b}ä"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}\u{fffd}\u{fffd}ä"
        );
        assert_eq!(fit("a\tb", 3), "a\u{fffd}b");
    }

    #[test]
    fn the_name_of_a_function_is_cut_last() {
        let place = "v8::internal::Zone::Expand at zone.cc:12 in node";
        for (width, shown) in [
            (80, place),
            (48, place),
            (47, "v8::internal::Zone::Expand at zone.cc:12"),
            (39, "v8::internal::Zone::Expand"),
            (25, "...::Zone::Expand"),
            (20, "...::Zone::Expand"),
            (16, "...::Expand"),
            (8, "Expand"),
            (5, "Ex..."),
        ] {
            assert_eq!(fit_place(place, width), shown, "{width}");
        }
        assert_eq!(fit_place("zmalloc in redis-server", 12), "zmalloc");
        assert_eq!(fit_place("sample+0x1169", 9), "sample...");
    }

    #[test]
    fn long_text_is_cut_at_characters() {
        assert_eq!(fit("äöüäöü", 6), "äöüäöü");
        assert_eq!(fit("äöüäöüä", 6), "äöü...");
    }
}
