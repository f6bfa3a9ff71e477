//! Locks that others have made.

#[cfg(any(feature = "std", feature = "lock_api"))]
use super::Exclusive;

/// The standard library's mutex. Threads sleep; a panic while it is held changes nothing.
#[cfg(feature = "std")]
#[derive(Debug, Default)]
pub struct StdLock(std::sync::Mutex<()>);

#[cfg(feature = "std")]
impl StdLock {
    /// A lock that is free.
    #[must_use]
    pub const fn new() -> Self {
        Self(std::sync::Mutex::new(()))
    }
}

// SAFETY: 1. as a mutex does.
#[cfg(feature = "std")]
unsafe impl Exclusive for StdLock {
    fn hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let _guard = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Some(work())
    }

    fn try_hold<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        use std::sync::TryLockError;
        let _guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(work())
    }
}

/// A raw mutex of the crate `lock_api`, of which there are many.
#[cfg(feature = "lock_api")]
#[derive(Debug)]
pub struct LockApi<R: lock_api::RawMutex>(lock_api::Mutex<R, ()>);

#[cfg(feature = "lock_api")]
impl<R: lock_api::RawMutex> LockApi<R> {
    /// A lock that is free.
    #[must_use]
    pub const fn new() -> Self {
        Self(lock_api::Mutex::new(()))
    }
}

#[cfg(feature = "lock_api")]
impl<R: lock_api::RawMutex> Default for LockApi<R> {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: 1. as a raw mutex promises.
#[cfg(feature = "lock_api")]
unsafe impl<R: lock_api::RawMutex> Exclusive for LockApi<R> {
    #[inline]
    fn hold<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let _guard = self.0.lock();
        Some(work())
    }

    #[inline]
    fn try_hold<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let _guard = self.0.try_lock()?;
        Some(work())
    }
}
