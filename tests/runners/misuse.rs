//! The sources of `misuse/`, each a test.

use toft_tests::trials::{main as run, trials};

fn main() {
    run(trials("misuse"))
}
