#include "program.h"

int main(void) { return report(); }
