"""The command toft, which runs any program on the Toft memory allocator."""

__version__ = "@VERSION@"
