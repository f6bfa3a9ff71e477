//! A shared object: its machine code and the names in it.

use super::step::Step;
use super::{aarch64, x86};
use object::{Architecture, Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use std::collections::BTreeMap;
use std::path::Path;

/// What its instructions are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    X86,
    Aarch64,
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Machine::X86 => "x86-64",
            Machine::Aarch64 => "aarch64",
        })
    }
}

/// What is needed of a shared object.
#[derive(Clone, Debug)]
pub struct Image {
    pub machine: Machine,
    base: u64,
    code: Vec<u8>,
    names: BTreeMap<u64, String>,
}

impl Image {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Image, String> {
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let bytes = std::fs::read(path).map_err(|e| said(&e))?;
        let file = object::File::parse(&*bytes).map_err(|e| said(&e))?;
        let machine = match file.architecture() {
            Architecture::X86_64 => Machine::X86,
            Architecture::Aarch64 => Machine::Aarch64,
            other => return Err(said(&format!("is for {other:?}"))),
        };
        let mut image: Option<Image> = None;
        for part in file.sections().filter(|section| section.kind() == SectionKind::Text) {
            let code = part.data().map_err(|e| said(&e))?;
            match &mut image {
                None => image = Some(Image::of(machine, part.address(), code)),
                Some(image) => image.append(part.address(), code).ok_or(said(&"its code"))?,
            }
        }
        let mut image = image.ok_or_else(|| said(&"has no code"))?;
        let symbols = file.symbols().chain(file.dynamic_symbols());
        for symbol in symbols.filter(|s| s.is_definition() && s.kind() != SymbolKind::Tls) {
            let name = format!("{:#}", rustc_demangle::demangle(symbol.name().unwrap_or_default()));
            // Of several names for one place the shortest says most: malloc, not __libc_malloc.
            let known = image.names.entry(symbol.address()).or_insert_with(|| name.clone());
            if name.len() < known.len() {
                *known = name;
            }
        }
        Ok(image)
    }

    /// Bare code.
    pub fn of(machine: Machine, base: u64, code: &[u8]) -> Image {
        Image { machine, base, code: code.to_vec(), names: BTreeMap::new() }
    }

    /// Adds code that is after the rest.
    fn append(&mut self, address: u64, code: &[u8]) -> Option<()> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        // What lies between is no code: instructions that no path may have.
        let trap = match self.machine {
            Machine::X86 => 0xCC,
            Machine::Aarch64 => 0,
        };
        (offset >= self.code.len()).then(|| self.code.resize(offset, trap))?;
        self.code.extend_from_slice(code);
        Some(())
    }

    /// Where a function begins.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        self.names.iter().find(|(_, known)| *known == name).map(|(&address, _)| address)
    }

    /// What is at an address, as far as it has a name.
    pub fn name_at(&self, address: u64) -> Option<String> {
        let (&begin, name) = self.names.range(..=address).next_back()?;
        match address - begin {
            0 => Some(name.clone()),
            offset @ 1..4096 => Some(format!("{name}+{offset:#x}")),
            _ => None,
        }
    }

    /// Whether a function with a name begins here.
    pub fn is_start(&self, address: u64) -> bool {
        self.names.contains_key(&address)
    }

    /// The instruction at an address.
    pub fn step_at(&self, address: u64) -> Option<Step> {
        match self.machine {
            Machine::X86 => x86::decode(self, address),
            Machine::Aarch64 => aarch64::decode(self, address),
        }
    }

    /// The instructions at these addresses as text.
    pub fn texts(&self, addresses: &[u64]) -> Vec<String> {
        match self.machine {
            Machine::X86 => x86::texts(self, addresses),
            Machine::Aarch64 => aarch64::texts(self, addresses),
        }
    }

    /// The code from an address on.
    pub fn code_at(&self, address: u64) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        self.code.get(offset..).filter(|code| !code.is_empty())
    }
}
