/* errors CONFIG.xml: what goes wrong is said, with the same number on all ranks of a collective call. */
#include "check.h"
#include "heat.h"

#include <string.h>

static int says(const char *word) { return strstr(adios_get_last_errmsg(), word) != NULL; }

/* Collective: whether all ranks have this number, in both places. */
static int all_get(MPI_Comm comm, int number, int wanted)
{
    int mine = number == wanted && adios_errno == wanted, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
    return all;
}

/* Collective: whether adios_init of a document with this transform and these parameters fails and names `word`. */
static int is_refused(MPI_Comm comm, const char *transform, const char *parameters, const char *word)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    if (rank == 0) {
        FILE *out = fopen("strict.xml", "w");
        fprintf(out,
                "<adios-config><adios-group name=\"g\"><var name=\"n\" type=\"integer\"/>"
                "<var name=\"a\" type=\"double\" dimensions=\"n\" transform=\"%s\"/></adios-group>"
                "<method group=\"g\" method=\"MPI\">%s</method></adios-config>\n",
                transform, parameters);
        fclose(out);
    }
    MPI_Barrier(comm);
    int status = adios_init("strict.xml", comm);
    int named = says(word) || says("reported by rank 0");
    if (status == 0) adios_finalize(rank);
    MPI_Barrier(comm);
    return status != 0 && named && !adios_is_initialized();
}

/* THALWEG_STRICT with documents: what is left out of account otherwise is an error. */
static void strict_documents(MPI_Comm comm)
{
    check(comm, !is_refused(comm, "szip", "snyc=yes", ""), "a document with an unknown parameter and a transform of ADIOS 1.x is taken");
    setenv("THALWEG_STRICT", "1", 1);
    check(comm, is_refused(comm, "none", "snyc=yes", "\"sync\""), "strict: an unknown parameter in a document fails");
    check(comm, is_refused(comm, "szip", "", "szip"), "strict: a transform in a document that is not built in fails");
    check(comm, is_refused(comm, "zlib:fast", "", "zlib"), "strict: a bad parameter of a transform in a document fails");
    check(comm, !is_refused(comm, "zlib:5", "verbose=2", ""), "strict: a sound document is taken");
    unsetenv("THALWEG_STRICT");
}

static void before_init(MPI_Comm comm, const char *config)
{
    int64_t fd = 7, group = 7;
    check(comm, adios_errno == 0 && !*adios_get_last_errmsg(), "nothing is wrong at first");
    check(comm, adios_open(&fd, "heat", "x.bp", "w", comm) == err_invalid_argument && says("adios_init") && fd == 0,
          "an open before init fails");
    check(comm, adios_declare_group(&group, "g", "", adios_stat_default) != 0 && group == 0, "a group before init fails");
    check(comm, adios_finalize(0) == 0, "finalize before init has nothing to end");
    check(comm, all_get(comm, adios_init("no-such.xml", comm), err_missing_config_file) && says("no-such.xml"),
          "a missing configuration is named");
    check(comm, adios_init(NULL, comm) != 0, "a null pointer is no configuration");
    check(comm, !adios_is_initialized(), "an init that failed leaves nothing behind");
    strict_documents(comm);
    must(adios_init(config, comm), "adios_init");
    check(comm, adios_init(config, comm) != 0 && adios_init_noxml(comm) == 0, "a second init is refused, without XML accepted");
}

static void opening(MPI_Comm comm, int rank, int ranks)
{
    int64_t fd = 7;
    int other = ranks > 1 ? 1 : 0; /* the rank that alone makes the mistake */
    check(comm, all_get(comm, adios_open(&fd, "haet", "x.bp", "w", comm), err_invalid_group) && says("\"heat\"") && fd == 0,
          "an unknown group fails on all ranks and names the nearest");
    check(comm, all_get(comm, adios_open(&fd, rank == other ? "haet" : "heat", "x.bp", "w", comm), err_invalid_group) &&
                    (rank == other || says("reported by rank 1")),
          "a group unknown on one rank fails on all ranks and names that rank");
    check(comm, all_get(comm, adios_open(&fd, "heat", "no/such/folder/x.bp", "w", comm), err_file_open_error) &&
                    (says("no/such/folder") || says("reported by rank 0")),
          "a missing folder fails on all ranks");
    check(comm, all_get(comm, adios_open(&fd, "heat", "x.bp", "z", comm), err_invalid_file_mode) && says("\"z\""),
          "an unknown mode fails");
    check(comm, adios_open(&fd, "heat", rank == other ? NULL : "x.bp", "w", comm) == err_invalid_argument,
          "a null pointer on one rank fails on all ranks");
    check(comm, adios_open(rank == other ? NULL : &fd, "heat", "x.bp", "r", comm) != 0,
          "no place for the handle on one rank fails on all ranks");
}

static void writing(MPI_Comm comm, const Part *p)
{
    int64_t fd;
    static double t[ROWS * NX];
    int nx = NX, number = 0;
    must(adios_open(&fd, "heat", "errors.bp", "w", comm), "adios_open");
    check(comm, adios_write(fd, "tt", t) == err_invalid_varname && says("\"heat\"") && says("\"tt\""),
          "an unknown variable fails and is named with its group");
    check(comm, adios_write(fd, "t", t) != 0 && says("not written"), "an array before its dimensions fails");
    number = adios_errno;
    adios_clear_error();
    check(comm, number != 0 && adios_errno == 0 && !*adios_get_last_errmsg(), "an error can be cleared");
    check(comm, adios_write(fd, "t", t) != 0 && !adios_write(fd, "NX", &nx) && adios_errno == 0,
          "a call that succeeds resets adios_errno");
    write_small(fd, p, 0);
    check(comm, adios_write(fd, "t", NULL) == err_invalid_argument && says("null pointer"), "a null pointer is no array");
    check(comm, adios_write(fd, "note", NULL) == err_invalid_argument, "a null pointer is no text");
    check(comm, adios_write(fd, NULL, t) == err_invalid_argument, "a null pointer is no name");
    check(comm, adios_read(fd, "t", t, sizeof t) == err_invalid_file_mode, "an output cannot be read");
    check(comm, adios_write(0, "t", t) == err_invalid_file_pointer && adios_write(fd + 1, "t", t) == err_invalid_file_pointer,
          "a handle that is none is refused");
    check(comm, adios_write_byid(fd, fd, t) == err_invalid_varid, "a file's handle is no variable");
    adios_timing_write_xml(fd, "times.xml");
    check(comm, adios_errno == err_operation_not_supported, "times are not kept, and that is said");
    fill(p, 0, t);
    check(comm, !adios_write(fd, "t", t) && !adios_close(fd), "after all these mistakes the step is written");
    check(comm, adios_close(fd) == err_invalid_file_pointer, "a file is closed once");
}

static void declaring(MPI_Comm comm)
{
    int64_t group = 0, again = 7, scalar, array, fd;
    double values[2] = {1, 2};
    check(comm, !adios_declare_group(&group, "code", "", adios_stat_default) && group != 0, "a group is declared");
    check(comm, !adios_declare_group(&again, "code", "", adios_stat_default) && again != group &&
                    adios_define_var(again, "other", "", adios_integer, "", "", "") && !adios_free_group(again),
          "a second group of a name is another one");
    check(comm, adios_select_method(group, "MIP", "", "") == err_invalid_write_method && says("\"MPI\""),
          "an unknown method fails and names the nearest");
    setenv("THALWEG_STRICT", "1", 1);
    check(comm, adios_select_method(group, "MPI", "snyc=yes", "") == err_invalid_write_method && says("\"sync\""),
          "an unknown parameter fails where that is asked for, and names the nearest");
    check(comm, adios_select_method(group, "MPI", "verbose=2;color=1", "") == 0, "parameters of ADIOS 1.x never fail");
    scalar = adios_define_var(group, "s", "", adios_double, "4", "", "");
    check(comm, scalar && adios_set_transform(scalar, "szip") == err_operation_not_supported && says("szip"),
          "strict: a transform of ADIOS 1.x that is not built in fails");
    check(comm, adios_set_transform(scalar, "zlib:fast") == err_invalid_transform_type && !adios_set_transform(scalar, "zlib:5"),
          "strict: a bad parameter of a transform fails");
    check(comm, !adios_delete_vardefs(group) && !adios_free_group(group) &&
                    !adios_declare_group(&group, "code", "", adios_stat_default), "a freed group is declared anew");
    unsetenv("THALWEG_STRICT");
    int64_t spoiled = 0;
    check(comm, !adios_declare_group(&spoiled, "spoiled", "", adios_stat_default) &&
                    !adios_select_method(spoiled, "MPI", "snyc=yes;verbose=2;index=often", ""),
          "an unknown parameter or value is left out");
    scalar = adios_define_var(spoiled, "a", "", adios_double, "4", "", "");
    check(comm, !adios_set_transform(scalar, "szip") && !adios_set_transform(scalar, "zfp"),
          "transforms of ADIOS 1.x are taken, or left out");
    scalar = adios_define_var(group, "n", "", adios_integer, NULL, NULL, NULL);
    array = adios_define_var(group, "a", "", adios_double, "n", "", "");
    check(comm, scalar && array && scalar != array, "variables are defined");
    check(comm, !adios_define_var(group, "b", "", adios_double, "m", "", "") && adios_errno == err_invalid_dimension,
          "a dimension that is no variable fails");
    check(comm, !adios_define_var(group, "b", "", (enum ADIOS_DATATYPES)3, "", "", "") && adios_errno == err_invalid_argument,
          "a number that is no type fails");
    check(comm, !adios_define_var(0, "b", "", adios_double, "", "", "") && adios_errno == err_invalid_group,
          "a group that is none fails");
    check(comm, adios_define_attribute(group, "x", "", adios_integer, "three", "") == err_invalid_attrname && says("three"),
          "an attribute that is no number fails");
    check(comm, adios_define_attribute(group, "x", "", adios_integer, "", "nobody") != 0, "an attribute of an unknown variable fails");
    check(comm, adios_define_attribute_byvalue(group, "x", "", adios_double, 0, values) != 0 &&
                    adios_define_attribute_byvalue(group, "x", "", adios_double, 2, NULL) != 0,
          "an attribute without values fails");
    check(comm, !adios_set_transform(array, "zlib:5") && !adios_set_transform(array, "none") &&
                    adios_set_transform(array, "zlip") == err_invalid_transform_type,
          "a transform that there is not fails");
    check(comm, !adios_set_time_aggregation(group, 1000, 0), "steps are written when they are closed, however large the buffer");
    check(comm, adios_define_var_mesh(group, "nobody", "m") != 0, "a variable that is not there fails");
    check(comm, !adios_define_mesh_timevarying("yes", group, "m") &&
                    adios_define_mesh_timevarying("perhaps", group, "m") == err_invalid_argument,
          "a mesh may be described before it is defined, but not badly");
    check(comm, all_get(comm, adios_open(&fd, "code", "y.bp", "w", comm), err_invalid_group) && says("no method"),
          "a group without method is not opened");
    must(adios_select_method(group, "MPI", "sync=yes", ""), "adios_select_method");
    check(comm, adios_expected_var_size(scalar) == 4 && adios_expected_var_size(array) == 0 && adios_errno != 0,
          "a size that depends on a variable is not known before it is written");
    must(adios_open(&fd, "code", "code.bp", "w", comm), "adios_open");
    int n = 2;
    check(comm, !adios_write_byid(fd, scalar, &n) && adios_expected_var_size(array) == 16, "and is known after");
    check(comm, !adios_write_byid(fd, array, values) && !adios_close(fd), "variables are written by their handles");
    must(adios_delete_vardefs(group), "adios_delete_vardefs");
    check(comm, adios_define_var(group, "other", "", adios_integer, "", "", "") != scalar && adios_expected_var_size(scalar) == 0 &&
                    adios_errno == err_invalid_varid,
          "a deleted variable's handle is none");
    check(comm, !adios_free_group(group) && adios_free_group(group) == err_invalid_group, "a group is freed once");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 2) return 2;
    Part p = part_of(MPI_COMM_WORLD);
    before_init(p.comm, argv[1]);
    opening(p.comm, p.rank, p.ranks);
    writing(p.comm, &p);
    declaring(p.comm);
    adios_error(err_unspecified, "%s has %d legs", "a program's own error", 3);
    check(p.comm, adios_errno == err_unspecified && says("a program's own error has 3 legs"), "programs raise errors of their own");
    ADIOS_AVAILABLE_WRITE_METHODS *methods = adios_available_write_methods();
    int found = 0;
    for (int i = 0; methods && i < methods->nmethods; i++) found += !strcmp(methods->name[i], "MPI") || !strcmp(methods->name[i], "POSIX");
    adios_available_write_methods_free(methods);
    check(p.comm, found == 2, "methods are listed");
    int64_t fd;
    must(adios_open(&fd, "heat", "left.bp", "w", p.comm), "adios_open");
    check(p.comm, adios_finalize(p.rank) != 0 && says("not closed") && !adios_is_initialized(), "finalize says which files were left open");
    check(p.comm, adios_finalize(p.rank) == 0, "a second finalize has nothing to end");
    MPI_Finalize();
    return checks_failed != 0;
}
