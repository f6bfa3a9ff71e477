//! The builds and settings that are compared, from `experiments/cost.toml`, and how they are built.

use super::root;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The whole experiment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Cases that are timed.
    pub cases: Vec<String>,
    /// Cases of which instructions are counted.
    pub counted: Vec<String>,
    /// The tables.
    #[serde(rename = "group")]
    pub groups: Vec<Group>,
    /// What is compared with Toft as it is.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
}

/// Variants that stand side by side.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name, and that of its tables and plots.
    pub name: String,
    /// The number in which they differ, if they do in one.
    pub across: Option<String>,
    /// Toft as it is on that axis.
    pub default_at: Option<u32>,
}

/// A build, or a setting, that differs from Toft as it is in one idea.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name within the group.
    pub name: String,
    /// The group.
    pub group: String,
    /// Its place on the group's axis.
    pub at: Option<u32>,
    /// Features of the library.
    #[serde(default)]
    pub features: Vec<String>,
    /// Variables that are set while it is compiled.
    #[serde(default)]
    pub compile: BTreeMap<String, String>,
    /// Variables that are set while it runs.
    #[serde(default)]
    pub run: BTreeMap<String, String>,
}

/// The experiment, as its file says.
///
/// # Panics
/// When the file does not parse; a test reads it.
#[must_use]
pub fn experiment() -> &'static Experiment {
    static READ: LazyLock<Experiment> = LazyLock::new(|| {
        toml::from_str(include_str!("../../experiments/cost.toml"))
            .expect("the experiment's file does not parse")
    });
    &READ
}

impl Experiment {
    /// The variants of a group, in the order of the file.
    pub fn of<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a Variant> {
        self.variants.iter().filter(move |variant| variant.group == group.name)
    }
}

impl Variant {
    /// Toft as it is, which all others are compared with.
    #[must_use]
    pub fn default_build() -> Self {
        Self { name: "toft".into(), ..Self::default() }
    }

    /// What a run calls it: its group and name, and the variables that the peer wants set.
    #[must_use]
    pub fn peer(&self) -> String {
        let name = match self.group.as_str() {
            "" => self.name.clone(),
            group => format!("{group}-{}", self.name),
        };
        let settings = self.run.iter().map(|(variable, value)| format!("@{variable}:{value}"));
        settings.fold(name, |name, setting| name + &setting)
    }

    /// The folder of its build: variants of the same build share it.
    fn folder(&self) -> String {
        let values = self.compile.values().cloned();
        let words: Vec<String> = self.features.iter().cloned().chain(values).collect();
        if words.is_empty() { "default".into() } else { words.join("+") }
    }

    /// Builds the library into a separate folder in `folder`, as it is shipped but for this.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn build(&self, folder: &Path) -> Result<PathBuf, String> {
        let target = folder.join(self.folder());
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // What cargo sets for this package would have build scripts run again; flags of a coverage
        // or sanitizer run would give other code.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let flags = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"].contains(&&*text);
            if flags || text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(&name);
            }
        }
        cargo.current_dir(root()).env("CARGO_TARGET_DIR", &target).envs(&self.compile);
        cargo.args(["build", "--quiet", "--release", "--package", "toft-preload"]);
        if !self.features.is_empty() {
            cargo.args(["--features", &self.features.join(",")]);
        }
        let output = cargo.output().map_err(|error| format!("cargo: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} does not build: {said}", self.peer()));
        }
        Ok(target.join("release/libtoft.so"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner;
    use std::collections::BTreeSet;

    #[test]
    fn the_file_names_cases_groups_and_features_that_exist() {
        let experiment = experiment();
        assert!(runner::choose(&experiment.cases).is_ok());
        assert!(runner::choose(&experiment.counted).is_ok());
        let manifest = root().join("crates/toft-preload/Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        let mut names = BTreeSet::new();
        for variant in &experiment.variants {
            assert!(names.insert(variant.peer()), "two are called {}", variant.peer());
            let group = experiment.groups.iter().find(|group| group.name == variant.group);
            let group = group.unwrap_or_else(|| panic!("no group {}", variant.group));
            assert_eq!(group.across.is_some(), variant.at.is_some(), "{}", variant.peer());
            for feature in &variant.features {
                let line = format!("\n{feature} = ");
                assert!(manifest.contains(&line), "no feature {feature}");
            }
        }
        for group in &experiment.groups {
            assert!(experiment.of(group).count() > 3, "{}", group.name);
            assert_eq!(group.across.is_some(), group.default_at.is_some());
        }
    }

    #[test]
    fn every_feature_of_this_experiment_is_compared() {
        let manifest = root().join("crates/toft/Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        let features =
            manifest.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key);
        let ours = ["experiment-no-", "experiment-owner-", "experiment-claim-"];
        let ours: Vec<&str> =
            features.filter(|key| ours.iter().any(|start| key.starts_with(start))).collect();
        assert!(ours.len() >= 5, "{ours:?}");
        for feature in ours {
            let compared = experiment()
                .variants
                .iter()
                .any(|variant| variant.features == [feature.to_owned()]);
            assert!(compared, "{feature}");
        }
    }

    #[test]
    fn names_carry_the_settings_and_builds_are_shared() {
        let named = |group: &str, name: &str| {
            let found = experiment().variants.iter().find(|v| v.group == group && v.name == name);
            found.unwrap()
        };
        assert_eq!(named("partitions", "16").peer(), "partitions-16@TOFT_PARTITIONS:16");
        assert_eq!(named("partitions", "16").folder(), "default");
        assert_eq!(named("claims", "8").folder(), "experiment-claim-limit+8");
        assert_eq!(Variant::default_build().peer(), "toft");
    }
}
