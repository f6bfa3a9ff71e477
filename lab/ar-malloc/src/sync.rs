//! The atomics of this crate: those of the standard library, or loom's in a model.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicUsize, Ordering};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicUsize, Ordering};

/// Puts a node in front of a list to which any thread may push, with Release.
pub fn push<T>(list: &AtomicPtr<T>, node: &'static T, next: &AtomicPtr<T>) {
    let mut head = list.load(Ordering::Relaxed);
    loop {
        next.store(head, Ordering::Relaxed);
        let new = std::ptr::from_ref(node).cast_mut();
        match list.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// Defines a constructor that is `const`, except in a model: loom registers each atomic when it is
/// made.
macro_rules! const_outside_models {
    ($(#[$doc:meta])* $name:ident() -> $type:ty $body:block) => {
        $(#[$doc])*
        #[cfg(not(loom))]
        pub const fn $name() -> $type $body
        $(#[$doc])*
        #[cfg(loom)]
        pub fn $name() -> $type $body
    };
}
pub(crate) use const_outside_models;

/// An array in such a constructor.
macro_rules! each {
    ($count:expr, $value:expr) => {{
        #[cfg(not(loom))]
        let array = [const { $value }; $count];
        #[cfg(loom)]
        let array = std::array::from_fn(|_| $value);
        array
    }};
}
pub(crate) use each;
