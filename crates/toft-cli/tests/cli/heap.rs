//! `toft heap`, `toft report` and `toft diff`: profiles of programs that know what they have, in
//! every form.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::*;
use serde_json::Value;

/// Two functions keep blocks, one of them inlined into another; a third keeps large ones. It says
/// what it has, to the byte, and again at each line that makes it grow. The last word lets it dump
/// core.
const PROGRAM: &str = include_str!("programs/heap.c");

fn start(directory: &Path) -> Target {
    Target::start(&compile(directory, "target", PROGRAM, &["-pthread", "-fno-builtin"]))
}

/// What the program says that each of its functions has.
fn stated(target: &Target) -> Value {
    serde_json::from_str(&target.line).unwrap()
}

fn rows_of<'a>(profile: &'a Value, function: &str) -> impl Iterator<Item = &'a Value> {
    let rows = profile["rows"].as_array().unwrap().iter();
    rows.filter(move |row| row["frames"][0]["function"] == function)
}

/// Bytes of a function's rows.
fn bytes_of(profile: &Value, function: &str) -> u64 {
    rows_of(profile, function).map(|row| number(&row["bytes"])).sum()
}

/// That a profile has what the target says it has.
#[track_caller]
fn assert_has(profile: &Value, stated: &Value) {
    let mut sum = 0;
    for function in ["keep", "inner", "large", "grow"] {
        assert_eq!(bytes_of(profile, function), number(&stated[function]), "{function}");
        sum += number(&stated[function]);
    }
    let rows = profile["rows"].as_array().unwrap();
    let all: u64 = rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
    assert_eq!(profile["bytes"], all);
    // What libc and the loader have.
    assert!(all >= sum && all - sum < 100_000, "{all} {sum}");
    assert_eq!(profile["doubts"], 0);
}

#[test]
fn a_running_process_has_what_it_says_and_so_has_its_core_file() {
    let directory = directory();
    let mut target = start(directory.path());
    let pid = target.pid.clone();
    let profile = object(&["heap", "--json", &pid]);
    assert_has(&profile, &stated(&target));
    assert_eq!((&profile["source"], &profile["name"]), (&"process".into(), &"target".into()));
    let frames = rows_of(&profile, "inner").next().unwrap()["frames"].as_array().unwrap();
    assert_eq!(frames[1]["function"], "outer", "inlined frames are kept");
    assert!(frames[0]["file"].as_str().unwrap().ends_with("target.c"));
    assert!(profile["rows"][0]["build_id"].as_str().unwrap().len() == 40);

    let core = format!("{}/core.{pid}", directory.path().display());
    let stem = format!("{}/core", directory.path().display());
    tool(Command::new("gcore").args(["-o", &stem, &pid]));
    target.ask("g");
    let dead = object(&["heap", "--json", &core]);
    assert_eq!((&dead["source"], dead["pid"].to_string()), (&"core".into(), pid));
    assert_eq!(dead["rows"], profile["rows"]);
    assert_eq!(dead["notes"], serde_json::json!([]));
    // The table says the same.
    let page = stdout(&succeeds(&["heap", &core]));
    assert_contains(&page, &["from a core file", "inner at target.c"]);
    let page = stdout(&succeeds(&["heap", "--full", &core]));
    assert!(page.contains("< outer at target.c"), "{page}");
    assert!(!page.contains('\x1b'));

    // Cut off, it says what is missing.
    let whole = fs::read(&core).unwrap();
    let cut = text(&file(directory.path(), "cut", &whole[..whole.len() / 64], 0o600)).to_owned();
    let why = refused(&["heap", &cut]);
    assert_contains(&why, &["lacks its end", "ulimit -c"]);
}

/// The kernel's own core file, with what a process may have asked to be left out.
#[test]
fn a_core_file_says_what_was_left_out() {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if pattern.starts_with('|') || pattern.contains('/') {
        eprintln!("skipped: this machine's core files go elsewhere: {pattern}");
        return;
    }
    for (filter, complete) in [("0x33", true), ("0x3b", true), ("0x32", false)] {
        let directory = directory();
        let program = compile(directory.path(), "target", PROGRAM, &["-pthread", "-fno-builtin"]);
        let mut shell = Command::new("sh");
        let start = "ulimit -c unlimited; echo $0 > /proc/self/coredump_filter; exec ./target";
        shell.current_dir(directory.path()).args(["-c", start, filter]);
        let mut target = Target::of(&mut shell);
        assert!(program.is_file());
        target.send("a");
        target.child.wait().unwrap();
        let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        let core =
            files.into_iter().find(|path| text(path).contains("/core")).expect("a core file");
        if complete {
            assert_has(&object(&["heap", "--json", text(&core)]), &stated(&target));
        } else {
            let why = refused(&["heap", text(&core)]);
            assert!(why.contains("coredump_filter"), "{why}");
        }
    }
}

#[test]
fn every_form_has_every_byte() {
    let directory = directory();
    let target = start(directory.path());
    let pid = target.pid.clone();
    let at = |name: &str| format!("{}/{name}", directory.path().display());
    let saved = at("heap.toft");
    let output = succeeds(&["heap", "-o", &saved, &pid]);
    assert!(message(&output).contains("next: toft report"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    assert!(!fs::read_to_string(&saved).unwrap().contains("frames"), "names are for later");

    for name in ["heap.pb.gz", "heap.svg", "heap.html", "heap.folded", "heap.json", "heap.txt"] {
        let output = succeeds(&["report", &saved, "--output", &at(name)]);
        assert!(message(&output).contains("next: "));
        // Likewise by the form's word, to the output.
        let word = match name {
            "heap.pb.gz" => "pprof",
            "heap.svg" => "flame",
            "heap.txt" => "text",
            other => other.split_once('.').unwrap().1,
        };
        let printed = succeeds(&["report", "--format", word, "--top", "0", &saved]).stdout;
        assert_eq!(printed, fs::read(at(name)).unwrap(), "{name}");
    }
    assert_has(&object(&["report", "--json", &saved]), &stated(&target));
    assert_has(&object(&["report", "--json", &at("heap.json")]), &stated(&target));

    let all = object(&["report", "--json", &saved])["bytes"].as_u64().unwrap();
    let folded = fs::read_to_string(at("heap.folded")).unwrap();
    let sum: u64 =
        folded.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, all);
    assert!(folded.contains("target;outer;inner at target.c:"), "{folded}");

    let short = stdout(&succeeds(&["report", "--top", "1", &saved]));
    assert!(short.contains("more call sites: --top 0 shows all"), "{short}");
    let formless = toft_ends_with(2, &["report", &saved, "-o", &at("heap.xyz")]);
    assert!(message(&formless).contains("give --format"), "{}", stderr(&formless));
    assert!(refused(&["report", &saved, "-o", "/nowhere/heap.json"]).contains("cannot write"));

    // In pprof's own hands.
    let file = at("heap.pb.gz");
    let mut pprof = pprof_top("-unit=B", &file);
    assert!(pprof.contains(&format!("of {all}B total")), "{pprof}");
    assert_contains(&pprof, &[" outer", " inner"]);
    let large = format!("{}B", stated(&target)["large"]);
    let mut lines = pprof.lines();
    assert!(lines.any(|line| line.contains(&large) && line.ends_with(" large")), "{pprof}");
    pprof = pprof_top("-sample_index=inuse_objects", &file);
    let mut lines = pprof.lines().map(str::trim_start);
    assert!(lines.any(|line| line.starts_with("3333 ") && line.ends_with(" keep")), "{pprof}");
}

/// What `go tool pprof` says of every node of a profile.
pub fn pprof_top(option: &str, file: &str) -> String {
    tool(Command::new("go").args(["tool", "pprof", "-top", option, "-nodefraction=0", file]))
}

/// A page in a browser, after `script` has run in it.
pub fn browse(page: &Path, script: &str) -> String {
    let source = fs::read_to_string(page).unwrap();
    let ending = if source.contains("</body>") { "</body>" } else { "</svg>" };
    let script = if ending == "</svg>" {
        format!("<script><![CDATA[{script}]]></script></svg>")
    } else {
        format!("<script>{script}</script></body>")
    };
    let copy = page.with_file_name(format!("acted-{}", text(Path::new(page.file_name().unwrap()))));
    fs::write(&copy, source.replacen(ending, &script, 1)).unwrap();
    let profile = format!("--user-data-dir={}", page.with_file_name("browser").display());
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    tool(browser.args(["--dump-dom", &profile, &format!("file://{}", copy.display())]))
}

/// Returns the figures that `look` finds in a page on screens of these widths, in pixels. It is the
/// body of a function of the page's document, `inside`, and the width.
fn on_screens(page: &Path, widths: &[u32], look: &str) -> Vec<Vec<f64>> {
    let script = format!(
        "if (window === top) {{
            const look = (inside, width) => {{ {look} }};
            const page = document.documentElement.outerHTML, frames = [];
            for (const width of {widths:?}) {{
                const frame = document.createElement('iframe');
                frame.style.cssText = `width: ${{width}}px; height: 800px; border: 0`;
                frame.srcdoc = page;
                frame.onload = () => {{
                    frame.figures = look(frame.contentDocument, width).join(' ');
                    document.title = frames.map((frame) => frame.figures).join(',');
                }};
                frames.push(frame);
                document.body.append(frame);
            }}
        }}"
    );
    let page = browse(page, &script);
    let title = page.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    let numbers = |screen: &str| screen.split(' ').map(|word| word.parse().unwrap()).collect();
    title.split(',').map(numbers).collect()
}

/// On a screen of 390 columns of pixels nothing is wider than the screen, and a row is its label
/// and one line.
#[test]
fn on_a_phone_the_label_is_on_the_screen() {
    let place = directory();
    let target = start(place.path());
    let page = place.path().join("heap.html");
    succeeds(&["heap", &target.pid, "-o", text(&page)]);
    let look = "const row = inside.querySelector('tbody tr').getBoundingClientRect();
        const label = inside.querySelector('tbody td.name').getBoundingClientRect();
        return [label.top - row.top, label.right, row.height, inside.body.scrollWidth];";
    let figures = on_screens(&page, &[390], look).concat();
    let [top, right, height, all] = figures[..] else { panic!("{figures:?}") };
    assert!(top < 10.0 && right <= 390.0 && height < 80.0 && all <= 390.0, "{figures:?}");
}

/// On a phone, a tablet and a desktop no bar covers a name or a number, each bar of a row is in its
/// cell, and each number is in its own.
#[test]
fn bars_cover_no_number_and_no_name() {
    let place = directory();
    let target = start(place.path());
    let page = place.path().join("heap.html");
    succeeds(&["heap", &target.pid, "-o", text(&page)]);
    // A number ends at its baseline, where an empty box stands.
    let look = "const within = (one, other) => one.left >= other.left - 0.5 && one.right <= other.right + 0.5
            && one.top >= other.top - 0.5 && one.bottom <= other.bottom + 0.5;
        const meet = (one, other) => one.left < other.right && other.left < one.right
            && one.top < other.bottom && other.top < one.bottom;
        const number = (cell) => {
            const range = inside.createRange(), end = inside.createElement('span');
            end.style.display = 'inline-block';
            cell.append(end);
            range.selectNodeContents(cell);
            const { left, right, top } = range.getBoundingClientRect();
            const { bottom } = end.getBoundingClientRect();
            end.remove();
            return { left, right, top, bottom };
        };
        const bar_of = (cell) => {
            const { left, right, top } = cell.getBoundingClientRect(), style = getComputedStyle(cell);
            const begin = top + cell.clientTop + parseFloat(style.backgroundPositionY);
            const height = parseFloat(style.backgroundSize.split(' ')[1]);
            return { left, right, top: begin, bottom: begin + height };
        };
        const bars = [...inside.querySelectorAll('.bar')].map((bar) => bar.getBoundingClientRect());
        let outside = 0, covered = 0;
        const shown = (selector) => [...inside.querySelectorAll(selector)].filter((cell) => cell.offsetWidth);
        for (const cell of shown('tbody td.share')) {
            bars.push(bar_of(cell));
            outside += !within(bar_of(cell), cell.getBoundingClientRect());
        }
        const names = shown('tbody td.name').map((cell) => cell.getBoundingClientRect());
        const cells = shown('tbody td.n'), numbers = cells.map(number);
        cells.forEach((cell, at) => outside += !within(numbers[at], cell.getBoundingClientRect()));
        for (const text of [...names, ...numbers]) covered += bars.some((bar) => meet(bar, text));
        return [bars.length, names.length, numbers.length, outside, covered];";
    let screens = on_screens(&page, &[390, 800, 1400], look);
    assert_eq!(screens.len(), 3);
    for figures in &screens {
        let [bars, names, numbers, outside, covered] = figures[..] else { panic!("{screens:?}") };
        assert!(bars > 3.0 && names > 1.0 && numbers > names, "{screens:?}");
        assert!(outside == 0.0 && covered == 0.0, "{screens:?}");
    }
}

/// The page says what the resident memory is made of, what its limit is, and what its colours mean.
/// A column with one value in all rows is not there.
#[test]
fn the_page_explains_its_colours_and_has_no_column_without_use() {
    let place = directory();
    let page = place.path().join("heap.html");
    let program = compile(place.path(), "target", PROGRAM, &["-g", "-O1", "-fno-builtin"]);
    let target = Target::with(&program, &[("TOFT_LIMIT", "512m")]);
    succeeds(&["heap", &target.pid, "-o", text(&page)]);
    let script = "const parts = [...document.querySelectorAll('#memory .legend li')];
        const sum = parts.reduce((sum, part) => sum + Number(part.dataset.bytes), 0);
        const rows = [...document.querySelectorAll('tbody tr')];
        const coloured = rows.filter((row) => row.querySelector('.swatch')).length;
        const segments = document.querySelectorAll('#bar span').length;
        const heads = [...document.querySelectorAll('th')].filter((head) => !head.hidden).length;
        const cells = [...rows[0].querySelectorAll('td')].filter((cell) => !cell.hidden).length;
        const text = [...document.querySelectorAll('#bar span')].map((span) => span.textContent).join('');
        document.title = [parts.length, sum, coloured, segments, heads, cells, text.length].join(' ');";
    let figures = |script: &str| -> (String, Vec<u64>) {
        let dom = browse(&page, script);
        let title = dom.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
        let figures = title.split(' ').map(|word| word.parse().unwrap()).collect();
        (dom, figures)
    };
    let (dom, all) = figures(script);
    let [parts, sum, coloured, segments, heads, cells, text] = all[..] else { panic!("{all:?}") };
    assert!(parts >= 4 && coloured >= 1 && coloured == segments && text == 0, "{all:?}");
    assert_eq!((heads, cells), (7, 7), "{all:?}");
    for explained in [
        "live blocks: ",
        "program and libraries: ",
        "512.0 MiB is the limit of TOFT_LIMIT",
        "Each colour is the row with that mark",
    ] {
        assert!(dom.contains(explained), "{explained}: {dom}");
    }
    let resident = object(&["rss", "--json", &target.pid])["kernel"]["rss"].as_u64().unwrap();
    assert!(sum.abs_diff(resident) < 1 << 20, "{sum} {resident}");
    // With equal figures in all rows, three columns say nothing.
    let equal = "for (const row of profile.rows) Object.assign(row, { size: 64, allocations: 9, allocated: 9 });
        profile.rows = profile.rows.slice(0, 2); profile.rows.forEach((row, i) => row.label = 'row ' + i); show();";
    let (dom, all) = figures(&format!("{equal}{script}"));
    assert_eq!((all[4], all[5]), (4, 4), "{all:?} {dom}");
    assert!(dom.contains("slot of each row: 64 B blocks ever of each row: 9"), "{dom}");
}

/// Returns the cells of the page's table, without the mark of call sites that share a partition:
/// which do is another in each process.
fn cells(page: &str) -> Vec<Vec<String>> {
    let body = page.split_once("<tbody>").unwrap().1.split_once("</tbody>").unwrap().0;
    let text = |cell: &str| {
        let mut text = String::new();
        let mut inside = false;
        for letter in cell.chars() {
            match letter {
                '<' => inside = true,
                '>' => inside = false,
                letter if !inside => text.push(letter),
                _ => {}
            }
        }
        text.strip_prefix('~').map(str::to_owned).unwrap_or(text)
    };
    let row = |row: &str| row.split("</td>").map(text).filter(|cell| !cell.is_empty()).collect();
    body.split("</tr>").map(row).filter(|row: &Vec<String>| !row.is_empty()).collect()
}

#[test]
fn the_page_searches_sorts_and_drills_down_in_a_browser() {
    let directory = directory();
    let target = start(directory.path());
    let page = directory.path().join("heap.html");
    succeeds(&["heap", "-o", text(&page), &target.pid]);
    drop(target);

    let names = |script: &str| -> Vec<String> {
        cells(&browse(&page, script)).iter().map(|row| row.last().unwrap().clone()).collect()
    };
    let by = |group: &str| {
        format!(
            "const by = document.getElementById('group'); by.value = '{group}';\
             by.dispatchEvent(new Event('change'));"
        )
    };
    let first = &names("")[0];
    assert!(first.starts_with("inner at target.c:") && !first.contains('<'), "labels: {first}");
    let all = &names("document.querySelector('tbody tr').click();")[0];
    assert!(all.contains("&lt; outer at target.c:"), "a click shows all functions: {all}");
    let slots = names(&"document.querySelector('tbody tr').click();".repeat(2));
    assert!(slots[0].ends_with(" KiB") || slots[0].ends_with(" B"), "then the slots: {slots:?}");
    let libraries = by("module");
    assert_eq!(names(&libraries)[0], "target");
    let open = &*format!("{libraries}document.querySelector('tbody tr').click();");
    assert_eq!(names(open)[..3], ["inner", "large", "keep"]);
    let slots = open.to_owned() + &"document.querySelector('tbody tr').click();".repeat(2);
    assert_eq!(names(&slots)[0], "3.0 KiB", "down to the slots");

    let search = "const field = document.getElementById('search'); field.value = 'KEEP target.c';\
                  field.dispatchEvent(new Event('input'));";
    assert_eq!(names(&format!("{open}{search}")), ["keep"]);
    let nothing = cells(&browse(&page, &search.replace("KEEP", "nobody")));
    assert!(nothing[0][0].contains("nothing has these words"), "{nothing:?}");

    let sort = "document.querySelector('[data-sort=name]').click();";
    let rising = names(&format!("{open}{sort}"));
    assert_eq!(rising[..3], ["inner", "keep", "large"], "{rising:?}");
    let falling = names(&format!("{open}{sort}{sort}"));
    assert_eq!(falling.into_iter().rev().collect::<Vec<_>>(), rising);
    let by_size = names(&by("size"));
    for name in ["large blocks", "112 B"] {
        assert!(by_size.iter().any(|size| size == name), "{name}: {by_size:?}");
    }
}

#[test]
fn call_sites_with_one_label_are_counted_or_told_apart_by_their_files() {
    let directory = directory();
    let keep = "#include <stdlib.h>\nvoid *kept[2000];\n\
        void keep(void) { for (int i = 0; i < 2000;) { kept[i++] = malloc(99); kept[i++] = malloc(98); } }\n";
    let source = file(directory.path(), "keep.c", keep.as_bytes(), 0o644);
    let mut main = String::from("#include <dlfcn.h>\n#include <stdio.h>\nint main(void) {\n");
    for name in ["one.so", "two.so"] {
        let flags = ["gcc", "-g", "-fno-builtin", "-shared", "-fPIC"];
        let library = build(&source, name, &flags);
        main +=
            &format!("((void (*)(void))dlsym(dlopen(\"{}\", 1), \"keep\"))();\n", text(&library));
    }
    main += "puts(\"ready\"); fflush(stdout); getchar(); return 0; }\n";
    let program = compile(directory.path(), "program", &main, &["-ldl"]);
    let target = Target::with(&program, &[("TOFT_PARTITIONS", "exact")]);
    let page = directory.path().join("heap.html");
    succeeds(&["heap", "-o", text(&page), &target.pid]);
    let table = stdout(&succeeds(&["heap", &target.pid]));
    let by_site = cells(&browse(&page, ""));
    for name in ["one.so", "two.so"] {
        let label = format!("keep at keep.c:3 in {name} (2 call sites)");
        assert!(table.lines().any(|line| line.ends_with(&label)), "no {label} in {table}");
        assert!(by_site.iter().any(|row| row.last() == Some(&label)), "no {label} in {by_site:?}");
    }
    let profile = object(&["heap", "--json", &target.pid]);
    assert_eq!(rows_of(&profile, "keep").count(), 4, "each call site is there: {profile}");
}

#[test]
fn the_flame_graph_is_drawn_and_goes_into_a_frame_in_a_browser() {
    let directory = directory();
    let target = start(directory.path());
    let svg = directory.path().join("heap.svg");
    succeeds(&["heap", "-o", text(&svg), &target.pid]);
    let width = |page: &str| -> f64 {
        let frame = page.split("<g ").find(|frame| frame.contains("data-name=\"keep at ")).unwrap();
        let rect = frame.split_once("<rect").unwrap().1;
        rect.split_once("width=\"").unwrap().1.split('"').next().unwrap().parse().unwrap()
    };
    let before = width(&browse(&svg, ""));
    assert!(before > 1.0 && before < 200.0, "{before}");
    let click = "for (const f of frames) if (f.dataset.name.startsWith('keep at')) \
                 f.dispatchEvent(new MouseEvent('click'));";
    assert_eq!(width(&browse(&svg, click)), 1200.0);
    let found = browse(&svg, "search('KEEP');");
    let share = found.split_once("id=\"found\"").unwrap().1.split_once('>').unwrap().1;
    assert!(share.split('<').next().unwrap().ends_with("% found"), "{share:.40}");
}

#[test]
fn growth_is_listed_by_site_and_may_fail_a_build() {
    let directory = directory();
    let mut target = start(directory.path());
    let pid = target.pid.clone();
    let at = |name: &str| format!("{}/{name}", directory.path().display());
    let (before, after) = (at("before.toft"), at("after.toft"));
    succeeds(&["heap", "-o", &before, &pid]);
    target.ask("g");
    target.ask("g");
    succeeds(&["heap", "-o", &after, &pid]);
    let grown = stated(&target)["grow"].as_u64().unwrap();

    let diff = object(&["diff", "--json", &before, &after]);
    assert_eq!((&diff["growth_bytes"], &diff["growth_objects"]), (&grown.into(), &2.into()));
    let sites = diff["sites"].as_array().unwrap();
    assert_eq!((sites.len(), sites[0]["function"].as_str()), (1, Some("grow")));
    let page = stdout(&succeeds(&["diff", &before, &after]));
    assert_contains(&page, &["grow at target.c:", "+2"]);
    let back = object(&["diff", "--json", &after, &before]);
    assert_eq!(back["growth_bytes"], -(grown as i64));

    let limit = |most: &str, before: &str, after: &str| {
        toft().args(["diff", "--fail-above", most, before, after]).output().unwrap()
    };
    let above = ends_with(1, limit(&(grown - 1).to_string(), &before, &after));
    assert!(message(&above).contains("has grown by"));
    assert_clean(&limit(&grown.to_string(), &before, &after));
    assert_clean(&limit("0", &after, &before));
    ends_with(2, limit("much", &before, &after));
    let top = stdout(&succeeds(&["diff", "--top", "1", &before, &after]));
    assert!(top.contains("grow at"), "{top}");
}

#[test]
fn a_profile_from_another_machine_is_named_by_the_files_that_ran_and_by_no_others() {
    let directory = directory();
    let target = start(directory.path());
    let saved = format!("{}/heap.toft", directory.path().display());
    succeeds(&["heap", "-o", &saved, &target.pid]);
    let had = stated(&target);
    drop(target);
    let program = directory.path().join("target");
    let elsewhere = directory.path().join("from-server");
    fs::create_dir(&elsewhere).unwrap();
    fs::rename(&program, elsewhere.join("target")).unwrap();

    let missing = object(&["report", "--json", &saved]);
    assert_eq!(bytes_of(&missing, "keep"), 0);
    assert!(missing["notes"][0].as_str().unwrap().contains("--symbols"), "{missing}");
    let page = stdout(&succeeds(&["report", &saved]));
    assert!(page.contains("target+0x"), "{page}");
    // Another program of that name.
    copy("/bin/true", &program);
    assert_eq!(bytes_of(&object(&["report", "--json", &saved]), "keep"), 0);
    assert_has(&object(&["report", "--json", "--symbols", text(&elsewhere), &saved]), &had);

    // Debug information by build-id, for a program that has none.
    let mut rows = missing["rows"].as_array().unwrap().iter();
    let row = rows.find(|row| row["module"].as_str().is_some_and(|m| m.ends_with("/target")));
    let id = row.unwrap()["build_id"].as_str().unwrap();
    let debug = elsewhere.join(format!(".build-id/{}", &id[..2]));
    fs::create_dir_all(&debug).unwrap();
    fs::rename(elsewhere.join("target"), debug.join(format!("{}.debug", &id[2..]))).unwrap();
    assert_has(&object(&["report", "--json", "--symbols", text(&elsewhere), &saved]), &had);
}

#[test]
fn what_is_no_profile_and_no_core_file_is_named() {
    let directory = directory();
    let other = text(&file(directory.path(), "other", b"{\"a\":1}", 0o600)).to_owned();
    assert!(refused(&["report", &other]).contains("no profile of Toft's"));
    assert!(refused(&["heap", &other]).contains("not a core file"));
    assert!(refused(&["heap", "/bin/true"]).contains("a program or a library"));
    let neither = toft().args(["heap", "/nowhere"]).output().unwrap();
    assert!(stderr(&neither).contains("no core file of that name"));
    let later = "{\"toft_profile\":9,\"unheard\":1}";
    let later = text(&file(directory.path(), "later", later.as_bytes(), 0o600)).to_owned();
    assert!(refused(&["report", &later]).contains("has version 9"));
}
