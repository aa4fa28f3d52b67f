/* Link-time check of the MPI with which a program is compiled. A file that includes <mpi.h>, or mpidummy.h, before or with
 * Thalweg's headers and calls a function that takes a communicator refers to a name that only the library for that MPI
 * defines. With the library for another MPI, or for none, the link fails: "undefined reference to `thalweg_needs_openmpi'"
 * means that libthalweg-openmpi is needed. A file that uses only types and constants has no such reference. */
#if !defined(THALWEG_OF_MPI) && (defined(MPI_VERSION) || defined(THALWEG_MPIDUMMY_H))

#if defined(THALWEG_MPIDUMMY_H)
#define THALWEG_OF_MPI thalweg_needs_nompi
#elif defined(OPEN_MPI)
#define THALWEG_OF_MPI thalweg_needs_openmpi
#elif defined(MPICH_VERSION) || defined(MVAPICH_VERSION) || defined(MVAPICH2_VERSION) || defined(I_MPI_VERSION)
#define THALWEG_OF_MPI thalweg_needs_mpich
#endif

#if defined(THALWEG_OF_MPI) && defined(__GNUC__) && defined(__ELF__)
#ifdef __cplusplus
extern "C" {
#endif
extern const int THALWEG_OF_MPI;
#ifdef __cplusplus
}
#endif
#if defined(__clang__)
/* Clang treats such functions as recursive. So each file refers to the name, whatever it uses. */
static const int *const thalweg_of_mpi __attribute__((used)) = &THALWEG_OF_MPI;
#else
/* Defines an inline wrapper with the function's own linker name: each call also refers to the MPI's name. Without calls no
 * code is generated, and the function's address is that of the library's function. */
#define THALWEG_OF_MPI_CALL(result, name, parameters, arguments)                                                       \
    THALWEG_OF_MPI_CALL_NAMED(result, name, parameters, arguments) /* version 1 of the read interface maps other names to these */
#define THALWEG_OF_MPI_CALL_NAMED(result, name, parameters, arguments)                                                 \
    extern result thalweg_plain_##name parameters __asm__(#name);                                                      \
    extern __inline __attribute__((__gnu_inline__, __always_inline__)) result name parameters                          \
    {                                                                                                                  \
        (void)*(const volatile int *)&THALWEG_OF_MPI;                                                                  \
        return thalweg_plain_##name arguments;                                                                         \
    }
#endif
#endif

#endif

#ifndef THALWEG_OF_MPI_CALL
#define THALWEG_OF_MPI_CALL(result, name, parameters, arguments)
#endif
