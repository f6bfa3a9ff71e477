//! The entries of the fuzz targets: any bytes are an input, and whatever is wrong panics.

use super::ops::Op;
use super::world::World;
use toft_core::options::{Options, Problem, TABLE};
use toft_core::os::fake::{Fake, Fault, Machine};

/// Bytes before the operations.
const HEADER: usize = 4;

/// A world as the first bytes say, and then operations.
///
/// ```text
/// byte 0  partitions (2 bits), unused (2), machine (2), kind of fault (2)
/// byte 1  the seed
/// byte 2  the call that fails
/// byte 3  unused
/// ```
pub fn core(bytes: &[u8]) {
    let Some((&[how, seed, call, _], operations)) = bytes.split_first_chunk::<HEADER>() else {
        return;
    };
    let options = Options { partitions: [1, 4, 16, 64][usize::from(how & 3)], ..Options::DEFAULT };
    let large = Machine { seed: seed.into(), ..Machine::LARGE };
    let machine = match how >> 4 & 3 {
        0 | 1 => large,
        2 => Machine { address_space: 1 << 38, ..large },
        _ => Machine { page_size: 16 << 10, guards: false, ..large },
    };
    let fake = Fake::new(machine);
    let Ok(mut world) = World::new(fake.clone(), options) else {
        panic!("there is memory for the tables");
    };
    let fault = match how >> 6 {
        0 | 1 => None,
        2 => Some(Fault::at(call.into())),
        _ => Some(Fault::from(call.into())),
    };
    fake.set_fault(fault);
    world.must_succeed = fault.is_none();
    world.undisturbed = fault.is_none();
    let operations = Op::decode_all(operations);
    let (first, last) = operations.split_at(operations.len() * 3 / 4);
    world.run(first);
    fake.set_fault(None);
    world.must_succeed = true;
    world.run(last);
    world.finish();
}

/// One variable of the environment a line. Whatever it says: no panic, every value within the
/// bounds that the table promises, and a variable that is refused changes nothing.
pub fn options(bytes: &[u8]) {
    let mut options = Options::DEFAULT;
    for variable in bytes.split(|&byte| byte == b'\n') {
        let before = options;
        match options.take(variable) {
            Ok(()) if variable.starts_with(b"TOFT_") => {
                let name = variable.split(|&byte| byte == b'=').next().unwrap_or_default();
                assert!(TABLE.iter().any(|entry| entry.name.as_bytes() == name));
            }
            Ok(()) => assert_eq!(options, before, "not ours"),
            Err(problem) => {
                assert!(variable.starts_with(b"TOFT_"));
                assert_eq!(options, before, "refused, and yet taken");
                if let Problem::BadValue(entry) = problem {
                    assert!(variable.starts_with(entry.name.as_bytes()));
                }
            }
        }
        let partitions = options.partitions_there_are();
        assert!((1..=4096).contains(&partitions) && partitions.is_power_of_two());
        assert!(options.report_descriptor.is_none_or(|descriptor| descriptor >= 0));
    }
}
