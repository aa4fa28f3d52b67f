/* Between Fortran programs and the C library.
 *
 * | room      | what it owns |
 * |-----------|--------------|
 * | array.c   | arrays that come with a descriptor: where they lie, how large they are, copies of those with gaps |
 * | text.c    | texts: blanks at the end there, a zero byte at the end here |
 * | value.c   | single values, turned from the type in the file into the kind of the variable |
 * | write.c   | adios_write_mod: the procedures of adios.h |
 * | read.c    | adios_read_mod: those of adios_read.h and adios_selection.h |
 * | query.c   | adios_query_mod: those of adios_query.h |
 *
 * Functions whose names end in an underscore are external procedures: what `call adios_open(...)` finds without any
 * module, as gfortran and others call it: all arguments by address, then the lengths of all characters. The modules
 * declare the same procedures, those that take a communicator by a name with the MPI in it. Functions named thalweg_bridge_* stand behind the generic names of the modules.
 */
#ifndef THALWEG_BRIDGE_H
#define THALWEG_BRIDGE_H

#include <ISO_Fortran_binding.h>
#include <stddef.h>
#include <stdint.h>

#include "adios.h"
#include "thalweg_fortran.h"

/* A text of the C library for the rest of the function: up to a zero byte, without blanks at the end. */
#define TEXT(name, fortran, length) char *name __attribute__((cleanup(thalweg_bridge_forget))) = thalweg_bridge_text(fortran, length)
char *thalweg_bridge_text(const char *text, size_t length);
void thalweg_bridge_forget(char **text);
/* A text of Fortran: cut, or with blanks behind it. 0: it fits. */
int thalweg_bridge_pad(const char *text, char *fortran, size_t length);

/* A second name for a procedure that takes a communicator, with the MPI in it: the modules of that MPI call it by this name, which only
 * the library for the same MPI has. So modules of one MPI do not link with the library for another; bare calls do, and are told. */
#define OF_MODULES_NAMED(mpi, name) thalweg_needs_##mpi##_##name
#define OF_MODULES_EXPANDED(mpi, name) OF_MODULES_NAMED(mpi, name)
#define OF_MODULES(name) extern __typeof__(name) OF_MODULES_EXPANDED(THALWEG_MODULES_OF, name) __attribute__((alias(#name)))

#define UNKNOWN_ROOM UINT64_MAX

/* The memory of an argument, in one piece. */
struct array {
    void *start;
    uint64_t room;      /* bytes that are there; UNKNOWN_ROOM for a scalar, which may be an array's element, or a(*) */
    uint64_t text_room; /* the same where it holds one text */
    void *copy;         /* not NULL: `start` is this copy, as the argument's elements have gaps between them */
};

/* 0, or err_no_memory, told. */
int thalweg_bridge_array(const CFI_cdesc_t *argument, struct array *array);
/* Frees the copy. */
void thalweg_bridge_free(struct array *array);
/* Copies elements from one piece into the argument. */
void thalweg_bridge_scatter(const CFI_cdesc_t *argument, const void *from);
/* How many elements it has; -1: a(*). */
int64_t thalweg_bridge_elements(const CFI_cdesc_t *argument);

/* Turns a value of a file into one of a kind, which is told as the type that has it; texts are not turned. 0 where the
 * value is the same, else err_invalid_data, told. */
int thalweg_bridge_value(const void *from, enum ADIOS_DATATYPES type, void *to, enum ADIOS_DATATYPES kind,
                         const char *name);

/* An attribute as the library gave it, for version 1 of the read interface too: as it is, or each number turned into one of a kind.
 * 0, or the error's number, told. */
int thalweg_bridge_given(enum ADIOS_DATATYPES type, int size, const void *data, void *into, size_t into_length, const char *name);
int thalweg_bridge_given_of_kind(enum ADIOS_DATATYPES type, int size, void *data, void *into, enum ADIOS_DATATYPES kind,
                                     const char *name);
/* What a file of version 2 records of a variable, as values of a kind: see adios_get_statistics of adios_read_mod. */
int thalweg_bridge_statistics(int64_t fp, const char *name, size_t length, int kind, int kind_size, void *value, void *min, void *max,
                              double *avg, double *std_dev, char *mins, char *maxs, double *avgs, double *std_devs);

/* Offered by libthalweg-core: see bindings/c/src/adios1/calls/fortran.rs. */
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
