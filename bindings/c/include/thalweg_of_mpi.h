/* Which MPI a program is compiled with, for the linker. Every file that includes <mpi.h>, or mpidummy.h, before or with Thalweg's headers refers to
 * a name that only the library for that MPI defines. Linked with the library for another MPI, or for none, the program does not
 * link: "undefined reference to `thalweg_needs_openmpi'" says that libthalweg-openmpi is wanted. */
#if !defined(THALWEG_OF_MPI) && (defined(MPI_VERSION) || defined(THALWEG_MPIDUMMY_H))

#if defined(THALWEG_MPIDUMMY_H)
#define THALWEG_OF_MPI thalweg_needs_nompi
#elif defined(OPEN_MPI)
#define THALWEG_OF_MPI thalweg_needs_openmpi
#elif defined(MPICH_VERSION) || defined(MVAPICH_VERSION) || defined(MVAPICH2_VERSION) || defined(I_MPI_VERSION)
#define THALWEG_OF_MPI thalweg_needs_mpich
#endif

#if defined(THALWEG_OF_MPI) && defined(__GNUC__)
#ifdef __cplusplus
extern "C" {
#endif
extern const int THALWEG_OF_MPI;
#ifdef __cplusplus
}
#endif
static const int *const thalweg_of_mpi __attribute__((used)) = &THALWEG_OF_MPI;
#endif

#endif
