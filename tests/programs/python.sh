# CPython, its own small-object allocator on top of malloc.
# needs: python3 python3
python3 "$PROGRAMS/python.py"
