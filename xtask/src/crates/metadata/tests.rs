use super::*;
use serde_json::json;

#[test]
fn the_crates_can_be_published() {
    check().unwrap();
}

#[test]
fn crates_that_are_not_of_the_workspace_are_not_published() {
    for folder in ["fuzz", "crates/toft-arena/outside", "packaging/container/server"] {
        let manifest = format!("{folder}/Cargo.toml");
        let text = files::kept(&manifest);
        assert!(text.lines().any(|line| line == "publish = false"), "{manifest}");
    }
}

fn crate_of(name: &str) -> Value {
    json!({
        "name": name, "publish": null, "description": "d", "license": "MIT", "readme": "README.md",
        "repository": "https://r", "documentation": "https://d",
        "keywords": ["heap"], "categories": ["memory-management"],
    })
}

/// All crates with one of them changed.
fn changed(change: impl Fn(&mut Value)) -> Vec<String> {
    let mut all: Vec<Value> = PUBLISHED.map(crate_of).to_vec();
    change(&mut all[1]);
    wrong_metadata(&json!({ "packages": all }))
}

#[test]
fn planted_metadata_is_found() {
    assert_eq!(changed(|_| ()), [""; 0]);
    let one = |change: fn(&mut Value), wanted: &str| {
        let wrong = changed(change);
        assert!(wrong.len() == 1 && wrong[0].contains(wanted), "{wanted}: {wrong:?}");
    };
    one(|c| c["publish"] = json!([]), "toft-arena has `publish = false`");
    one(|c| c["readme"] = Value::Null, "no readme");
    one(|c| c["documentation"] = json!("docs"), "no address");
    one(|c| c["keywords"] = json!(["a", "b", "c", "d", "e", "f"]), "keywords");
    one(|c| c["keywords"] = json!(["two words"]), "keywords");
    one(|c| c["categories"] = json!(["allocators"]), "categories");
    let other = wrong_metadata(&json!({ "packages": [crate_of("xtask")] }));
    assert!(other[0].contains("xtask lacks `publish = false`"), "{other:?}");
    assert!(other.contains(&"there is no crate toft".to_owned()), "{other:?}");
}

#[test]
fn planted_files_are_found() {
    const GOOD: &str = "Cargo.toml\nREADME.md\nLICENSE-MIT\nLICENSE-APACHE\nsrc/golden/mod.rs\n";
    assert_eq!(wrong_files("toft", GOOD), [""; 0]);
    let with = |file: &str| wrong_files("toft", &format!("{GOOD}{file}\n"));
    assert_eq!(with("golden/free.txt"), ["toft is packed with golden/free.txt"]);
    let without = wrong_files("toft", &GOOD.replace("LICENSE-MIT\n", ""));
    assert_eq!(without, ["toft is packed without LICENSE-MIT"]);
    assert!(too_large("toft", "src/lib.rs\n").is_none());
    assert!(too_large("toft", &"src/lib.rs\n".repeat(4096)).is_some());
}

#[test]
fn a_library_that_gets_another_crate_is_found() {
    let package = |name: &str, of: &str, kind: Value| json!({"name": name, "dependencies": [{"name": of, "kind": kind}]});
    let all = json!({"packages": [
        package("toft-preload", "toft", Value::Null),
        package("toft-record", "toft-trace", Value::Null),
        package("toft-trace", "toft-tests", json!("dev")),
        package("toft", "toft-new", json!("build")),
        package("toft-new", "libc", Value::Null),
        package("toft-tests", "libc", Value::Null),
    ]});
    let needed = closure(&all, ["toft-preload", "toft-record"]);
    assert!(needed.contains("toft-new") && !needed.contains("toft-tests"), "{needed:?}");
    assert_eq!(needed.len(), 5);
    assert!(wrong_libraries(&all).unwrap()[0].contains("toft-new"));
}
