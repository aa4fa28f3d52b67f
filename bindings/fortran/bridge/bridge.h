/* The bridge between Fortran programs and the C library.
 *
 * | room      | what it owns |
 * |-----------|--------------|
 * | array.c   | arrays with descriptors: address, size, copies of arrays with gaps |
 * | text.c    | texts: padded with blanks in Fortran, ended by a zero byte in C |
 * | value.c   | single values, converted from the type in the file to the kind of the variable |
 * | write.c   | adios_write_mod: the procedures of adios.h |
 * | read.c    | adios_read_mod: those of adios_read.h and adios_selection.h |
 * | query.c   | adios_query_mod: those of adios_query.h |
 *
 * Functions whose names end in an underscore are external procedures, for `call adios_open(...)` without a module, in the
 * calling convention of gfortran and others: all arguments by address, then the lengths of all characters. The modules
 * declare the same procedures; the names of those that take a communicator contain the MPI. Functions named
 * thalweg_bridge_* implement the generic names of the modules.
 */
#ifndef THALWEG_BRIDGE_H
#define THALWEG_BRIDGE_H

#include <ISO_Fortran_binding.h>
#include <stddef.h>
#include <stdint.h>

#include "adios.h"
#include "thalweg_fortran.h"

/* A C string, valid for the rest of the function: up to a zero byte, without trailing blanks. */
#define TEXT(name, fortran, length) char *name __attribute__((cleanup(thalweg_bridge_forget))) = thalweg_bridge_text(fortran, length)
char *thalweg_bridge_text(const char *text, size_t length);
void thalweg_bridge_forget(char **text);
/* Copies into a Fortran text: truncated, or padded with blanks. 0: the text fits. */
int thalweg_bridge_pad(const char *text, char *fortran, size_t length);

/* An alias for a procedure that takes a communicator, with the MPI in the name: the modules of that MPI call the procedure
 * by this alias, which only the library for the same MPI defines. So modules of one MPI do not link with the library for
 * another; calls without a module do, and get an error. */
#define OF_MODULES_NAMED(mpi, name) thalweg_needs_##mpi##_##name
#define OF_MODULES_EXPANDED(mpi, name) OF_MODULES_NAMED(mpi, name)
#define OF_MODULES(name) extern __typeof__(name) OF_MODULES_EXPANDED(THALWEG_MODULES_OF, name) __attribute__((alias(#name)))

#define UNKNOWN_ROOM UINT64_MAX

/* The memory of an argument, contiguous. */
struct array {
    void *start;
    uint64_t room;      /* size in bytes; UNKNOWN_ROOM for a scalar, which may be an array's element, or a(*) */
    uint64_t text_room; /* the same for one text */
    void *copy;         /* not NULL: `start` is this copy, because the argument's elements have gaps */
};

/* Returns 0, or err_no_memory with its message. */
int thalweg_bridge_array(const CFI_cdesc_t *argument, struct array *array);
/* Frees the copy. */
void thalweg_bridge_free(struct array *array);
/* Copies contiguous elements into the argument. */
void thalweg_bridge_scatter(const CFI_cdesc_t *argument, const void *from);
/* Number of elements; -1: a(*). */
int64_t thalweg_bridge_elements(const CFI_cdesc_t *argument);

/* Converts a value of a file to a kind, given by the corresponding type; texts are not converted. 0 if the value is
 * preserved, else err_invalid_data with its message. */
int thalweg_bridge_value(const void *from, enum ADIOS_DATATYPES type, void *to, enum ADIOS_DATATYPES kind,
                         const char *name);

/* An attribute from the library, also for version 1 of the read interface: unchanged, or with each number converted to a
 * kind. 0, or the error's number with its message. */
int thalweg_bridge_given(enum ADIOS_DATATYPES type, int size, const void *data, void *into, size_t into_length, const char *name);
int thalweg_bridge_given_of_kind(enum ADIOS_DATATYPES type, int size, void *data, void *into, enum ADIOS_DATATYPES kind,
                                     const char *name);
/* Recorded statistics of a variable, for version 2, as values of a kind: see adios_get_statistics of adios_read_mod. */
int thalweg_bridge_statistics(int64_t fp, const char *name, size_t length, int kind, int kind_size, void *value, void *min, void *max,
                              double *avg, double *std_dev, char *mins, char *maxs, double *avgs, double *std_devs);

/* Defined in libthalweg-core: see bindings/c/src/adios1/calls/fortran.rs. */
struct thalweg_fortran_memory {
    const void *start;
    uint64_t room;
    uint64_t text_room;
    int copied;
};
int thalweg_core_fortran_order(void);
int thalweg_core_fortran_write(int64_t fd, const char *name, int64_t id, const struct thalweg_fortran_memory *memory);
int thalweg_core_fortran_read(int64_t fd, const char *name, void *buffer, uint64_t room, uint64_t text_room);
void thalweg_core_error(int number, const char *text);

#endif
