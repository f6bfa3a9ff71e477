# CPython with every object a malloc of its own.
# needs: python3 python3
export PYTHONMALLOC=malloc
python3 "$PROGRAMS/python.py"
