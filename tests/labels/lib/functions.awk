# Prints a C program of n functions.
BEGIN {
    for (i = 0; i < n; i++)
        printf "static int f%d(int a, const char *s) { int x[%d] = {a}; for (int i = 1; i < %d; i++) x[i] = x[i-1] * %d + s[i %% 3]; switch (a %% 5) { case 0: return x[%d]; case 1: return x[0] ^ a; default: return a * %d; } }\n", i, i % 30 + 2, i % 30 + 2, i, i % 30 + 1, i + 3
    print "int main(void) { int sum = 0;"
    for (i = 0; i < n; i++) printf "sum += f%d(%d, \"text %d\");\n", i, i * 7, i
    print "return sum; }"
}
