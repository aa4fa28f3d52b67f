/* small FILE LATER: names with several slashes, what types are called and how long they are, steps of LATER, a file of ADIOS 1.x whose
 * time begins with 3, and calls on a file that could not be opened, whose words the script counts. */
#include "check.h"
#include "heat.h"

#include <adios_read.h>
#include <string.h>

/* Programs of ADIOS 1.x declare them themselves. */
uint64_t adios_get_type_size(enum ADIOS_DATATYPES type, const void *value);
const char *adios_type_to_string_int(int type);

static const char *const slashes[] = {"a//b", "//b", "a///b/c"};

static void names(MPI_Comm comm, int rank, const char *path)
{
    int64_t group, fd;
    int defined = 1, written = 1, there = 1;
    must(adios_declare_group(&group, "small", "", adios_stat_default), "adios_declare_group");
    must(adios_select_method(group, "MPI", "", ""), "adios_select_method");
    for (int i = 0; i < 3; i++) defined &= adios_define_var(group, slashes[i], "", adios_integer, "", "", "") != 0;
    check(comm, defined, "names with several slashes are defined");
    must(adios_open(&fd, "small", path, "w", comm), "adios_open");
    for (int i = 0; i < 3; i++) {
        int value = 10 + i;
        written &= adios_write(fd, slashes[i], &value) == 0;
    }
    check(comm, written, "they are written as they were defined");
    must(adios_close(fd), "adios_close");
    ADIOS_FILE *file = adios_read_open_file(path, ADIOS_READ_METHOD_BP, comm);
    for (int i = 0; i < 3; i++) {
        ADIOS_VARINFO *info = file ? adios_inq_var(file, slashes[i]) : NULL;
        there &= info && info->value && *(int *)info->value == 10 + i;
        if (info) adios_free_varinfo(info);
    }
    check(comm, there && file->nvars == 3, "they are read by the same names");
    if (file) adios_read_close(file);
    (void)rank;
}

static void types(MPI_Comm comm)
{
    const struct {
        enum ADIOS_DATATYPES type;
        uint64_t size;
        const char *name;
    } all[] = {
        {adios_byte, 1, "byte"},
        {adios_short, 2, "short"},
        {adios_integer, 4, "integer"},
        {adios_long, 8, "long long"},
        {adios_unsigned_byte, 1, "unsigned byte"},
        {adios_unsigned_short, 2, "unsigned short"},
        {adios_unsigned_integer, 4, "unsigned integer"},
        {adios_unsigned_long, 8, "unsigned long long"},
        {adios_real, 4, "real"},
        {adios_double, 8, "double"},
        {adios_long_double, 16, "long double"},
        {adios_complex, 8, "complex"},
        {adios_double_complex, 16, "double complex"},
    };
    int sizes = 1, called = 1;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sizes &= adios_get_type_size(all[i].type, "") == all[i].size;
        called &= !strcmp(adios_type_to_string_int(all[i].type), all[i].name);
    }
    check(comm, sizes && adios_get_type_size(adios_string, "four") == 4, "types have the sizes of ADIOS 1.13");
    check(comm, called && !strcmp(adios_type_to_string_int(adios_string), "string"), "types have the names of ADIOS 1.13");
}

static void later(MPI_Comm comm, const char *path)
{
    ADIOS_FILE *file = adios_read_open_file(path, ADIOS_READ_METHOD_BP, comm);
    ADIOS_VARINFO *info = file ? adios_inq_var(file, "x") : NULL;
    check(comm, file && file->current_step == 0 && file->last_step == 2, "steps of a later file count from 0: last_step");
    check(comm, info && info->nsteps == 3, "steps of a later file count from 0: nsteps");
    if (info) adios_free_varinfo(info);
    if (file) adios_read_close(file);
}

static void not_open(MPI_Comm comm)
{
    int64_t fd = 0;
    int number = 1, failed = 1;
    uint64_t total;
    failed &= adios_open(&fd, "small", "no/such/folder/x.bp", "w", comm) != 0 && fd == 0;
    for (int i = 0; i < 100; i++) failed &= adios_group_size(fd, 4, &total) != 0 && adios_write(fd, "a//b", &number) != 0;
    check(comm, failed && adios_close(fd) != 0, "calls on a file that could not be opened fail");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 3) return 2;
    Part p = part_of(MPI_COMM_WORLD);
    must(adios_init_noxml(p.comm), "adios_init_noxml");
    names(p.comm, p.rank, argv[1]);
    types(p.comm);
    later(p.comm, argv[2]);
    not_open(p.comm);
    must(adios_finalize(p.rank), "adios_finalize");
    MPI_Finalize();
    return checks_failed != 0;
}
