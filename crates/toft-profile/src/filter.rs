//! What a process knows about filters of system calls (seccomp), as in a container.

use toft_core::os::filter::Words;

use crate::{Error, Memory, Tables};

impl Tables {
    /// What is known of filters.
    pub fn filter(&self, memory: &impl Memory) -> Result<Words, Error> {
        let root = &self.root;
        let words = [
            root.filter_installed,
            root.filter_watched,
            root.filter_inherited,
            root.filter_probe,
            root.filter_safe,
            root.filter_works,
        ];
        let mut values = [0; 6];
        for (value, at) in values.iter_mut().zip(words) {
            let mut bytes = [0; 4];
            if memory.read(root.filter.saturating_add(at), &mut bytes) != bytes.len() {
                return Err(memory.unread("the filters cannot be read"));
            }
            *value = u32::from_le_bytes(bytes);
        }
        Ok(Words::of(values))
    }
}
