//! Memory of the experiment. Its pages are written, released, and checked by `mincore`.

use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};

/// The number of bytes of a page.
pub const PAGE: usize = 4096;

/// Private anonymous memory, which is unmapped when the area is dropped.
#[derive(Debug)]
pub struct Area {
    start: usize,
    pages: usize,
}

impl Area {
    /// Maps memory without huge pages. No page is resident yet.
    pub fn new(pages: usize) -> Area {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, at a place that the kernel chooses.
        let start = unsafe { libc::mmap(null_mut(), pages * PAGE, access, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        // SAFETY: advice about the memory that was mapped a moment ago.
        unsafe { libc::madvise(start, pages * PAGE, libc::MADV_NOHUGEPAGE) };
        Area { start: start.expose_provenance(), pages }
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Returns the address of a page.
    pub fn at(&self, page: usize) -> usize {
        assert!(page <= self.pages);
        self.start + page * PAGE
    }

    /// Returns the number of the page at an address.
    pub fn page_of(&self, address: usize) -> usize {
        (address - self.start) / PAGE
    }

    /// Writes to a page.
    #[inline(always)]
    pub fn touch(&self, page: usize) {
        assert!(page < self.pages);
        // SAFETY: within the area, to which no reference is ever made.
        unsafe { with_exposed_provenance_mut::<u8>(self.at(page)).write_volatile(1) };
    }

    /// Returns true if a page reads as zero. The kernel maps a page that it had released.
    pub fn is_zero(&self, page: usize) -> bool {
        assert!(page < self.pages);
        // SAFETY: within the area, to which no reference is ever made.
        unsafe { with_exposed_provenance::<u8>(self.at(page)).read_volatile() == 0 }
    }

    /// Returns for each page whether it is resident, as the kernel says.
    pub fn resident(&self) -> Vec<bool> {
        let mut bytes = vec![0_u8; self.pages];
        let start = with_exposed_provenance_mut(self.start);
        // SAFETY: the kernel writes a byte for each page.
        let done = unsafe { libc::mincore(start, self.pages * PAGE, bytes.as_mut_ptr()) };
        assert_eq!(done, 0, "mincore: {}", std::io::Error::last_os_error());
        bytes.iter().map(|byte| byte & 1 != 0).collect()
    }

    /// Unmaps one page, so that releasing it fails. No thread may map memory meanwhile.
    #[cfg(test)]
    pub fn cut(&self, page: usize) {
        // SAFETY: the test does not use the page any more.
        unsafe { libc::munmap(with_exposed_provenance_mut(self.at(page)), PAGE) };
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: no other value refers to the memory, and no request for it is in a ring.
        unsafe { libc::munmap(with_exposed_provenance_mut(self.start), self.pages * PAGE) };
    }
}
