/* The programs of work.h for another language: one of them in this process. */
#include "work.h"

static Work work;

int load_begin(const char *name, size_t mib) { return work_begin(&work, name, mib); }
int load_arrays(void) { return work.arrays; }
size_t load_values(void) { return work.values; }
double *load_array(int a) { return work.array[a]; }
void load_steps(int steps)
{
    while (steps-- > 0) work_step(&work);
}
