/* Writes through the interface of adios.h: the same source for Thalweg and for ADIOS 1.13.
 *
 *   library FOLDER LABEL CHECK LOADS NAME=METHOD[;PARAMETERS]...
 *
 * Each contender is a group of its own for each load. Statistics are on, as either library has them by default. */
#include "world.h"

#include <adios.h>
#include <adios_error.h>
#include <adios_read.h>

enum { MOST_MIB = 600 };

static void check(const World *w, int status, const char *doing)
{
    if (status) stop(w, doing, adios_get_last_errmsg());
}

static const char *variable_name(int variable)
{
    static char name[16];
    snprintf(name, sizeof name, "v%03d", variable);
    return name;
}

static void write_library(const World *w, const Load *load, const char *name, const char *path)
{
    char group[128];
    snprintf(group, sizeof group, "%s_%s", name, load->name);
    int64_t file;
    uint64_t total;
    int n[4] = {load->rows, COLUMNS, load->rows * w->ranks, load->rows * w->rank};
    check(w, adios_open(&file, group, path, "w", w->comm), "open");
    adios_group_size(file, sizeof n + load->variables * values(load) * sizeof(double), &total);
    static const char *names[4] = {"rows", "columns", "all_rows", "first_row"};
    for (int i = 0; i < 4; i++) check(w, adios_write(file, names[i], &n[i]), names[i]);
    for (int v = 0; v < load->variables; v++) check(w, adios_write(file, variable_name(v), array(w, load, v)), "write");
    check(w, adios_close(file), "close");
}

static void read_library(const World *w, const Load *load, const char *path, int variable, double *into)
{
    static ADIOS_FILE *file;
    if (variable == 0) file = adios_read_open_file(path, ADIOS_READ_METHOD_BP, MPI_COMM_SELF);
    if (!file) stop(w, path, adios_get_last_errmsg());
    uint64_t start[2] = {(uint64_t)load->rows * w->rank, 0}, count[2] = {load->rows, COLUMNS};
    ADIOS_SELECTION *mine = adios_selection_boundingbox(2, start, count);
    check(w, adios_schedule_read(file, mine, variable_name(variable), 0, 1, into), "schedule read");
    check(w, adios_perform_reads(file, 1), "read");
    adios_selection_delete(mine);
    if (variable == load->variables - 1) adios_read_close(file);
}

/* Defines the group of a contender for a load. */
static void define(const World *w, const Load *load, const char *name, const char *method, const char *parameters)
{
    char group_name[128];
    snprintf(group_name, sizeof group_name, "%s_%s", name, load->name);
    int64_t group;
    check(w, adios_declare_group(&group, group_name, "", adios_stat_default), "declare group");
    check(w, adios_select_method(group, method, parameters, ""), "select method");
    static const char *names[4] = {"rows", "columns", "all_rows", "first_row"};
    for (int i = 0; i < 4; i++) adios_define_var(group, names[i], "", adios_integer, "", "", "");
    for (int v = 0; v < load->variables; v++) {
        adios_define_var(group, variable_name(v), "", adios_double, "rows,columns", "all_rows,columns", "first_row,0");
    }
}

int main(int argc, char **argv)
{
    World w = world_begin(&argc, &argv);
    if (argc < 6) stop(&w, "arguments", "FOLDER LABEL CHECK LOADS NAME=METHOD[;PARAMETERS]...");
    check(&w, adios_init_noxml(w.comm), "init");
    adios_set_max_buffer_size(MOST_MIB);
    adios_read_init_method(ADIOS_READ_METHOD_BP, w.comm, "");
    Contender all[16];
    int n = 0;
    for (int i = 5; i < argc && n < 16; i++, n++) {
        char *method = strchr(argv[i], '=');
        if (!method) stop(&w, argv[i], "no method");
        *method++ = 0;
        char *parameters = strchr(method, ';');
        if (parameters) *parameters++ = 0;
        /* The interface reads BP files. */
        int is_bp = strcmp(method, "PHDF5") != 0 && strcmp(method, "NC4") != 0;
        all[n] = (Contender){argv[i], write_library, is_bp ? read_library : NULL};
        for (int l = 0; l < w.count; l++) define(&w, &w.loads[l], argv[i], method, parameters ? parameters : "");
    }
    take_turns(&w, argv, all, n);
    adios_read_finalize_method(ADIOS_READ_METHOD_BP);
    check(&w, adios_finalize(w.rank), "finalize");
    free(w.data);
    MPI_Finalize();
    return 0;
}
