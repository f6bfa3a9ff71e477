//! The sources of `abi/`, each a test, and what the library's file itself must be.

use libtest_mimic::Trial;
use std::path::Path;
use toft_tests::image;
use toft_tests::library::{Build, build_under_test, library};
use toft_tests::linked::{Link, links, stacks};
use toft_tests::platform::{Platform, platform};
use toft_tests::reference;
use toft_tests::rust;
use toft_tests::trials::{main as run, needing, trial, trials};

fn of_the_file(
    name: &str,
    body: impl FnOnce(&Path) -> Result<(), String> + Send + 'static,
) -> Option<Trial> {
    let path = library().path()?.to_owned();
    let needs = [("nm".to_owned(), "binutils".to_owned()), ("readelf".into(), "binutils".into())];
    Some(needing(name, &needs, move || body(&path)))
}

fn main() {
    let mut all = trials("abi");
    match platform() {
        Platform::Native => {}
        Platform::Musl => {
            all.push(trial("rust_musl", || rust::reports(rust::Link::Musl)));
            run(all);
        }
        Platform::Aarch64 => run(all),
    }
    all.extend(reference::trials());
    all.extend(of_the_file("exports_the_list", image::exports_the_list));
    all.extend(of_the_file("needs_no_more_than_the_list", image::needs_no_more_than_the_list));
    all.extend(of_the_file("has_no_panic", image::has_no_panic));
    all.extend(of_the_file("headers_are_right", image::headers_are_right));
    all.extend(of_the_file("only_semaphores_stay_writable", image::only_semaphores_stay_writable));
    for (name, link) in
        [("shared", Link::Shared), ("archive", Link::Archive), ("static", Link::Static)]
    {
        for (kind, program, cpp) in [
            ("c", "api.c", false),
            ("cpp", "api.c", true),
            ("hpp", "hpp.cc", true),
            ("credentials", "credentials.c", false),
        ] {
            let name = format!("links_{name}_{kind}");
            all.extend(of_the_file(&name, move |path| links(path, link, program, cpp)));
        }
    }
    for (name, link) in [
        ("stacks_archive", Link::Archive),
        ("stacks_static", Link::Static),
        ("stacks_static_pie", Link::StaticPie),
    ] {
        for (kind, frame_pointers) in [("", true), ("_without_frame_pointers", false)] {
            let name = format!("{name}{kind}");
            all.extend(of_the_file(&name, move |path| stacks(path, link, frame_pointers)));
        }
    }
    all.push(trial("rust_dynamic", || rust::reports(rust::Link::Dynamic)));
    all.push(trial("rust_static", || rust::reports(rust::Link::Static)));
    if build_under_test() == Build::Secure {
        all.push(trial("rust_both_features", rust::both_features));
    }
    if build_under_test() == Build::Default {
        all.push(trial("rust_incremental", rust::links_incrementally));
    }
    run(all)
}
