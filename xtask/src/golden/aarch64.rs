//! Instructions of aarch64. What an instruction does follows from its name in the manual.

use super::image::Image;
use super::step::{Flow, Step};
use yaxpeax_arch::{Arch, Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{ARMv8, Instruction, Operand};

/// The register 31 is the stack pointer where it is the base of an access.
const STACK: u16 = 31;

/// The instruction at an address.
pub fn decode(image: &Image, address: u64) -> Option<Step> {
    let instruction = instruction(image, address)?;
    let text = instruction.to_string();
    let name = text.split(' ').next()?;
    let on_stack = on_stack(&instruction);
    Some(Step {
        address,
        next: address + 4,
        flow: match (name, target(&instruction, address)) {
            ("bl" | "blr", _) => Flow::Call,
            ("b", Some(target)) => Flow::Jump(target),
            ("cbz" | "cbnz" | "tbz" | "tbnz", Some(target)) => Flow::Branch(target),
            (name, Some(target)) if name.starts_with("b.") => Flow::Branch(target),
            ("ret", _) => Flow::Return,
            _ if elsewhere(name).is_some() => Flow::Elsewhere,
            _ => Flow::Next,
        },
        loads: !on_stack && name.starts_with("ld"),
        stores: !on_stack && name.starts_with("st"),
        multiplies: name.contains("mul") || name.ends_with("madd") || name.ends_with("msub"),
        tls: name == "mrs" && text.contains("tpidr_el0"),
        wrong: what_is_wrong(name),
    })
}

/// The instructions at these addresses as text.
pub fn texts(image: &Image, addresses: &[u64]) -> Vec<String> {
    let text = |&address: &u64| {
        let instruction = instruction(image, address)?;
        let text = instruction.to_string();
        // Addresses as names: they differ from build to build. `adrp` has that of a page, in which
        // much lies.
        Some(match target(&instruction, address) {
            Some(_) if text.starts_with("adrp") => shown_to(&text, "page"),
            Some(to) => shown_to(&text, &image.name_at(to).unwrap_or_else(|| "GOT".into())),
            None => text,
        })
    };
    addresses.iter().filter_map(text).collect()
}

fn instruction(image: &Image, address: u64) -> Option<Instruction> {
    let decoder = <ARMv8 as Arch>::Decoder::default();
    decoder.decode(&mut U8Reader::new(image.code_at(address)?)).ok()
}

/// Where it may go, if the instruction says so.
fn target(instruction: &Instruction, address: u64) -> Option<u64> {
    instruction.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(offset) => Some(address.wrapping_add_signed(*offset)),
        _ => None,
    })
}

/// The text of an instruction with a name in place of the distance, which is its last operand.
fn shown_to(text: &str, name: &str) -> String {
    let begin = text.rfind([' ', ',']).map_or(text.len(), |at| at + 1);
    format!("{} {name}", text[..begin].trim_end())
}

fn on_stack(instruction: &Instruction) -> bool {
    instruction.operands.iter().any(|operand| {
        matches!(
            operand,
            Operand::RegRegOffset(STACK, ..)
                | Operand::RegPreIndex(STACK, ..)
                | Operand::RegPostIndex(STACK, ..)
        )
    })
}

/// What never goes on with the next instruction.
fn elsewhere(name: &str) -> Option<&'static str> {
    match name {
        "br" | "braa" | "brab" => Some("indirect jump"),
        "brk" | "hlt" | "udf" => Some("trap"),
        _ => None,
    }
}

fn what_is_wrong(name: &str) -> Option<&'static str> {
    // Pairs of exclusive accesses, and the single instructions of version 8.1.
    let exclusive = ["ldxr", "ldaxr", "stxr", "stlxr", "ldxp", "ldaxp", "stxp", "stlxp"];
    let single = ["ldadd", "ldclr", "ldeor", "ldset", "ldsmax", "ldsmin", "ldumax", "ldumin"];
    if exclusive.iter().chain(&single).chain(&["cas", "swp"]).any(|start| name.starts_with(start)) {
        return Some("atomic read-modify-write");
    }
    match name {
        "bl" | "blr" => Some("call"),
        "udiv" | "sdiv" => Some("division"),
        "dmb" | "dsb" | "isb" => Some("fence"),
        "svc" => Some("system call"),
        _ => elsewhere(name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::super::image::{Image, Machine};

    /// str x0, [x1]; ret
    const STORE_AND_RETURN: [u32; 2] = [0xF900_0020, 0xD65F_03C0];

    fn of(before: &[u32]) -> Figures {
        let words = before.iter().chain(&STORE_AND_RETURN);
        let code: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        Figures::at(&Image::of(Machine::Aarch64, 0x1000, &code), 0x1000).unwrap()
    }

    #[test]
    fn what_a_path_has_is_counted() {
        // mrs x8, tpidr_el0; ldr x9, [x8, #8]; mul x9, x9, x1; cbz x9, +8; ldr x0, [sp, #8]
        let path = [0xD53B_D048, 0xF940_0509, 0x9B01_7D29, 0xB400_0049, 0xF940_07E0];
        let line = "instructions 6  branches 1  loads 1  stores 1  multiplications 1  tls 1";
        // The branch leaves the load from the stack out.
        assert_eq!((of(&path).line().as_str(), of(&path).forbidden().len()), (line, 0));
        assert_eq!(of(&[0xF940_07E0]).line().split("  ").nth(2), Some("loads 0"), "of the stack");
    }

    #[test]
    fn planted_regressions_are_found() {
        for (what, code) in [
            ("atomic", 0x885F_7C20),      // ldxr w0, [x1]
            ("atomic", 0xB860_0022),      // ldadd w0, w2, [x1]
            ("atomic", 0x88E0_FC22),      // casal w0, w2, [x1]
            ("call", 0x9400_0001),        // bl next
            ("division", 0x9AC1_0800),    // udiv x0, x0, x1
            ("fence", 0xD503_3BBF),       // dmb ish
            ("system call", 0xD400_0001), // svc #0
        ] {
            let found = of(&[code]).forbidden();
            assert!(found.len() == 1 && found[0].starts_with(what), "{what}: {found:?}");
        }
        let tls = 0xD53B_D048;
        assert_eq!(of(&[tls, tls]).forbidden(), ["2 accesses to thread-local storage"]);
    }
}
