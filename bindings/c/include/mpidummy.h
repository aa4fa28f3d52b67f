/* One process without MPI: replacements of the MPI names that programs use around their output. Communicators are numbers
 * and have one rank. Calls that need a second rank fail with MPI_ERR_COMM. */
#ifndef THALWEG_MPIDUMMY_H
#define THALWEG_MPIDUMMY_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int MPI_Comm;
typedef int MPI_Info;
typedef int MPI_Fint;
typedef int MPI_Datatype; /* see the list below */
typedef uint64_t MPI_Status;
typedef uint64_t MPI_Offset;
typedef int MPI_File; /* a file descriptor */

enum mpi_operation { MPI_MIN, MPI_SUM };
typedef enum mpi_operation MPI_Op;

#define MPI_COMM_NULL 0
#define MPI_COMM_WORLD 1
#define MPI_COMM_SELF 2
#define MPI_INFO_NULL 0
#define MPI_ANY_SOURCE 0
#define MPI_ANY_TAG 0
#define MPI_FILE_NULL 0

#define MPI_MODE_RDONLY O_RDONLY
#define MPI_SEEK_SET SEEK_SET
#define MPI_SEEK_CUR SEEK_CUR
#define MPI_SEEK_END SEEK_END

#define MPI_SUCCESS 0
#define MPI_ERR_BUFFER 1
#define MPI_ERR_COUNT 2
#define MPI_ERR_TYPE 3
#define MPI_ERR_TAG 4
#define MPI_ERR_COMM 5
#define MPI_MAX_ERROR_STRING 512
#define MPI_MAX_PROCESSOR_NAME 32

#define MPI_INT 1
#define MPI_CHAR 2
#define MPI_FLOAT 3
#define MPI_DOUBLE 4
#define MPI_UINT64_T 5
#define MPI_UNSIGNED_LONG_LONG 6
#define MPI_BYTE (MPI_CHAR)
#define MPI_REAL (MPI_FLOAT)

/* The functions have their own names in libthalweg-nompi, so that a real MPI in the same program keeps its names. */
#define MPI_Init thalweg_nompi_Init
#define MPI_Finalize thalweg_nompi_Finalize
#define MPI_Initialized thalweg_nompi_Initialized
#define MPI_Wtime thalweg_nompi_Wtime
#define MPI_Get_processor_name thalweg_nompi_Get_processor_name
#define MPI_Error_string thalweg_nompi_Error_string
#define MPI_Comm_rank thalweg_nompi_Comm_rank
#define MPI_Comm_size thalweg_nompi_Comm_size
#define MPI_Comm_dup thalweg_nompi_Comm_dup
#define MPI_Comm_split thalweg_nompi_Comm_split
#define MPI_Comm_free thalweg_nompi_Comm_free
#define MPI_Comm_f2c thalweg_nompi_Comm_f2c
#define MPI_Barrier thalweg_nompi_Barrier
#define MPI_Bcast thalweg_nompi_Bcast
#define MPI_Gather thalweg_nompi_Gather
#define MPI_Gatherv thalweg_nompi_Gatherv
#define MPI_Allgather thalweg_nompi_Allgather
#define MPI_Scatter thalweg_nompi_Scatter
#define MPI_Scatterv thalweg_nompi_Scatterv
#define MPI_Allreduce thalweg_nompi_Allreduce
#define MPI_File_open thalweg_nompi_File_open
#define MPI_File_close thalweg_nompi_File_close
#define MPI_File_get_size thalweg_nompi_File_get_size
#define MPI_File_read thalweg_nompi_File_read
#define MPI_File_seek thalweg_nompi_File_seek
#define MPI_Get_count thalweg_nompi_Get_count

int MPI_Init(int *argc, char ***argv);
int MPI_Finalize();
int MPI_Initialized(int *flag);
double MPI_Wtime();
int MPI_Get_processor_name(char *name, int *resultlen);
int MPI_Error_string(int errorcode, char *string, int *resultlen);

int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm);
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *comm_out);
int MPI_Comm_free(MPI_Comm *comm);
MPI_Comm MPI_Comm_f2c(MPI_Fint comm);

int MPI_Barrier(MPI_Comm comm);
int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
int MPI_Gather(void *sendbuf, int sendcnt, MPI_Datatype sendtype, void *recvbuf, int recvcnt, MPI_Datatype recvtype,
               int root, MPI_Comm comm);
int MPI_Gatherv(void *sendbuf, int sendcnt, MPI_Datatype sendtype, void *recvbuf, int *recvcnts, int *displs,
                MPI_Datatype recvtype, int root, MPI_Comm comm);
int MPI_Allgather(void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm);
int MPI_Scatter(void *sendbuf, int sendcnt, MPI_Datatype sendtype, void *recvbuf, int recvcnt, MPI_Datatype recvtype,
                int root, MPI_Comm comm);
int MPI_Scatterv(void *sendbuf, int *sendcnts, int *displs, MPI_Datatype sendtype, void *recvbuf, int recvcnt,
                 MPI_Datatype recvtype, int root, MPI_Comm comm);
int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);

/* Files, to read. They return MPI_SUCCESS or an errno. */
int MPI_File_open(MPI_Comm comm, char *filename, int amode, MPI_Info info, MPI_File *fh);
int MPI_File_close(MPI_File *fh);
int MPI_File_get_size(MPI_File fh, MPI_Offset *size);
int MPI_File_read(MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status);
int MPI_File_seek(MPI_File fh, MPI_Offset offset, int whence);
/* Number of elements that the read of this status returned. */
int MPI_Get_count(MPI_Status *status, MPI_Datatype datatype, int *count);

#ifdef __cplusplus
}
#endif

#include "thalweg_of_mpi.h"

#endif
