//! Instructions of x86-64.

use super::image::Image;
use super::step::{Flow, Step};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, Instruction, InstructionInfoFactory,
    IntelFormatter, Mnemonic, OpAccess, Register, SymbolResolver, SymbolResult,
};

/// The instruction at an address.
pub fn decode(image: &Image, address: u64) -> Option<Step> {
    let instruction = instruction(image, address)?;
    let segment = instruction.memory_segment();
    Some(Step {
        address,
        next: instruction.next_ip(),
        flow: match instruction.flow_control() {
            FlowControl::Next => Flow::Next,
            FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
            FlowControl::UnconditionalBranch => Flow::Jump(instruction.near_branch_target()),
            FlowControl::ConditionalBranch => Flow::Branch(instruction.near_branch_target()),
            FlowControl::Return => Flow::Return,
            _ => Flow::Elsewhere,
        },
        loads: loads(&instruction),
        stores: stores(&instruction),
        multiplies: matches!(
            instruction.mnemonic(),
            Mnemonic::Imul | Mnemonic::Mul | Mnemonic::Mulx
        ),
        tls: segment == Register::FS || segment == Register::GS,
        wrong: what_is_wrong(&instruction),
    })
}

fn instruction(image: &Image, address: u64) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(64, image.code_at(address)?, address, DecoderOptions::NONE);
    Some(decoder.decode()).filter(|instruction| !instruction.is_invalid())
}

fn what_is_wrong(instruction: &Instruction) -> Option<&'static str> {
    let register_memory_exchange = instruction.mnemonic() == Mnemonic::Xchg && stores(instruction);
    if instruction.has_lock_prefix() || register_memory_exchange {
        return Some("atomic read-modify-write");
    }
    match instruction.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall => return Some("call"),
        FlowControl::IndirectBranch => return Some("indirect jump"),
        FlowControl::Exception | FlowControl::Interrupt => return Some("trap"),
        _ => {}
    }
    match instruction.mnemonic() {
        Mnemonic::Div | Mnemonic::Idiv => Some("division"),
        Mnemonic::Mfence | Mnemonic::Lfence | Mnemonic::Sfence | Mnemonic::Cpuid => Some("fence"),
        Mnemonic::Syscall | Mnemonic::Sysenter => Some("system call"),
        _ => None,
    }
}

fn stores(instruction: &Instruction) -> bool {
    accesses(instruction, |access| {
        matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    })
}

fn loads(instruction: &Instruction) -> bool {
    accesses(instruction, |access| {
        matches!(
            access,
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    })
}

/// Whether it accesses memory other than the stack so.
fn accesses(instruction: &Instruction, kind: impl Fn(OpAccess) -> bool) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    info.used_memory().iter().any(|memory| memory.base() != Register::RSP && kind(memory.access()))
}

/// Addresses as names: they differ from build to build.
struct Names(Image);

impl SymbolResolver for Names {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _: u32,
        _: Option<u32>,
        address: u64,
        _: u32,
    ) -> Option<SymbolResult<'_>> {
        let jumps = instruction.near_branch_target() == address && address != 0;
        if !jumps && !instruction.is_ip_rel_memory_operand() {
            return None;
        }
        // The global offset table has no symbol.
        let name = self.0.name_at(address).filter(|name| !name.starts_with("_DYNAMIC"));
        Some(SymbolResult::with_string(address, name.unwrap_or_else(|| "GOT".into())))
    }
}

/// The instructions at these addresses as text.
pub fn texts(image: &Image, addresses: &[u64]) -> Vec<String> {
    let names = Box::new(Names(image.clone()));
    let mut formatter = IntelFormatter::with_options(Some(names), None);
    let found = addresses.iter().filter_map(|&address| instruction(image, address));
    found
        .map(|instruction| {
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            text
        })
        .collect()
}
