//! The sources of `storms/`, each a test.

use toft_tests::trials::{main as run, trials};

fn main() {
    run(trials("storms"))
}
