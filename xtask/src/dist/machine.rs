//! The machines that artifacts are for.

/// A processor, with the names that the tools have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// As in the names of artifacts, and of GNU's tools.
    pub name: &'static str,
}

pub const X86_64: Machine = Machine { name: "x86_64" };
pub const AARCH64: Machine = Machine { name: "aarch64" };

impl Machine {
    /// Rust's name of this machine with glibc.
    pub fn target(&self) -> String {
        format!("{}-unknown-linux-gnu", self.name)
    }

    /// A program of GNU's for this machine.
    fn tool(&self, program: &str) -> String {
        if self.name == std::env::consts::ARCH {
            program.to_owned()
        } else {
            format!("{}-linux-gnu-{program}", self.name)
        }
    }

    /// The C compiler, which links, too.
    pub fn compiler(&self) -> String {
        self.tool("gcc")
    }

    pub fn objcopy(&self) -> String {
        self.tool("objcopy")
    }

    pub fn strip(&self) -> String {
        self.tool("strip")
    }
}
