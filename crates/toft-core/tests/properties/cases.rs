//! How many cases a property test has, and for how long a failing one is made shorter. Apart from
//! the rest of this folder, which the fuzzer shares and has no `proptest` for.

use proptest::prelude::ProptestConfig;

/// So many, unless `PROPTEST_CASES` says otherwise.
pub fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(usual),
        max_shrink_time: 15_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
