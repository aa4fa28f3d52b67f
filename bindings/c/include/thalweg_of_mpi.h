/* Which MPI a program is compiled with, for the linker. A file that includes <mpi.h>, or mpidummy.h, before or with Thalweg's headers and calls a
 * function that takes a communicator refers to a name that only the library for that MPI defines. Linked with the library for another
 * MPI, or for none, the program does not link: "undefined reference to `thalweg_needs_openmpi'" says that libthalweg-openmpi is wanted. A file
 * that uses types and constants alone refers to nothing. */
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
/* Clang takes such functions for ones that call themselves. So each file refers to the name, whatever it uses. */
static const int *const thalweg_of_mpi __attribute__((used)) = &THALWEG_OF_MPI;
#else
/* A function that a file calls, its name for the linker unchanged: where the call stands, the MPI's name is referred to. No code is
 * made where nothing calls it, and its address is that of the library's own. */
#define THALWEG_OF_MPI_CALL(result, name, parameters, arguments)                                                       \
    THALWEG_OF_MPI_CALL_NAMED(result, name, parameters, arguments) /* version 1 of reading has other names below */
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
