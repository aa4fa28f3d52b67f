/* mpidummy.h: one process without MPI. What moves data copies it, as the one rank is sender and receiver. */
#include "mpidummy.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What programs that include mpidummy.h refer to: see thalweg_of_mpi.h. */
extern const int thalweg_needs_nompi;
const int thalweg_needs_nompi = 1;

static int running = 0;

static int width(MPI_Datatype type)
{
    switch (type) {
    case MPI_INT: return sizeof(int);
    case MPI_CHAR: return 1;
    case MPI_FLOAT: return sizeof(float);
    case MPI_DOUBLE: return sizeof(double);
    case MPI_UINT64_T: return sizeof(uint64_t);
    case MPI_UNSIGNED_LONG_LONG: return sizeof(unsigned long long);
    default: return 0;
    }
}

static int copy(const void *from, int from_count, MPI_Datatype from_type, void *to, int to_count, MPI_Datatype to_type)
{
    if (!width(from_type) || !width(to_type)) return MPI_ERR_TYPE;
    if (from_count < 0 || to_count < 0) return MPI_ERR_COUNT;
    size_t bytes = (size_t)from_count * (size_t)width(from_type);
    if (bytes > (size_t)to_count * (size_t)width(to_type)) return MPI_ERR_COUNT;
    if (bytes && (!from || !to)) return MPI_ERR_BUFFER;
    if (bytes) memmove(to, from, bytes);
    return MPI_SUCCESS;
}

static int known(MPI_Comm comm) { return comm == MPI_COMM_NULL ? MPI_ERR_COMM : MPI_SUCCESS; }

static int alone(MPI_Comm comm, int root) { return comm == MPI_COMM_NULL || root != 0 ? MPI_ERR_COMM : MPI_SUCCESS; }

int MPI_Init(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    running = 1;
    return MPI_SUCCESS;
}

int MPI_Finalize(void)
{
    running = 0;
    return MPI_SUCCESS;
}

int MPI_Initialized(int *flag)
{
    *flag = running;
    return MPI_SUCCESS;
}

double MPI_Wtime(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int MPI_Get_processor_name(char *name, int *resultlen)
{
    if (gethostname(name, MPI_MAX_PROCESSOR_NAME) != 0) snprintf(name, MPI_MAX_PROCESSOR_NAME, "localhost");
    name[MPI_MAX_PROCESSOR_NAME - 1] = 0;
    *resultlen = (int)strlen(name);
    return MPI_SUCCESS;
}

int MPI_Error_string(int errorcode, char *string, int *resultlen)
{
    static const char *const texts[] = {"no error",   "no buffer", "a count that does not fit", "an unknown datatype",
                                        "a bad tag", "a communicator or rank that there is not without MPI"};
    const int number = sizeof texts / sizeof *texts;
    const char *text = errorcode >= 0 && errorcode < number ? texts[errorcode] : "an unknown error";
    *resultlen = snprintf(string, MPI_MAX_ERROR_STRING, "%s", text);
    return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    *rank = 0;
    return known(comm);
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    *size = 1;
    return known(comm);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm)
{
    *newcomm = comm;
    return known(comm);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *comm_out)
{
    (void)key;
    *comm_out = color < 0 ? MPI_COMM_NULL : comm;
    return known(comm);
}

int MPI_Comm_free(MPI_Comm *comm)
{
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

MPI_Comm MPI_Comm_f2c(MPI_Fint comm) { return comm; }

int MPI_Barrier(MPI_Comm comm) { return known(comm); }

int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
    (void)buffer;
    if (count < 0) return MPI_ERR_COUNT;
    return width(datatype) ? alone(comm, root) : MPI_ERR_TYPE;
}

int MPI_Gather(void *sendbuf, int sendcnt, MPI_Datatype sendtype, void *recvbuf, int recvcnt, MPI_Datatype recvtype,
               int root, MPI_Comm comm)
{
    int code = alone(comm, root);
    return code ? code : copy(sendbuf, sendcnt, sendtype, recvbuf, recvcnt, recvtype);
}

int MPI_Gatherv(void *sendbuf, int sendcnt, MPI_Datatype sendtype, void *recvbuf, int *recvcnts, int *displs,
                MPI_Datatype recvtype, int root, MPI_Comm comm)
{
    int code = alone(comm, root);
    if (code) return code;
    if (!recvcnts || !displs || !recvbuf) return MPI_ERR_BUFFER;
    char *to = (char *)recvbuf + (ptrdiff_t)displs[0] * width(recvtype);
    return copy(sendbuf, sendcnt, sendtype, to, recvcnts[0], recvtype);
}

int MPI_Allgather(void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm)
{
    return MPI_Gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, 0, comm);
}

int MPI_Scatter(void *sendbuf, int sendcnt, MPI_Datatype sendtype, void *recvbuf, int recvcnt, MPI_Datatype recvtype,
                int root, MPI_Comm comm)
{
    int code = alone(comm, root);
    return code ? code : copy(sendbuf, sendcnt, sendtype, recvbuf, recvcnt, recvtype);
}

int MPI_Scatterv(void *sendbuf, int *sendcnts, int *displs, MPI_Datatype sendtype, void *recvbuf, int recvcnt,
                 MPI_Datatype recvtype, int root, MPI_Comm comm)
{
    int code = alone(comm, root);
    if (code) return code;
    if (!sendcnts || !displs || !sendbuf) return MPI_ERR_BUFFER;
    const char *from = (const char *)sendbuf + (ptrdiff_t)displs[0] * width(sendtype);
    return copy(from, sendcnts[0], sendtype, recvbuf, recvcnt, recvtype);
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    (void)op; /* of one value, the smallest and the sum are itself */
    int code = known(comm);
    return code ? code : copy(sendbuf, count, datatype, recvbuf, count, datatype);
}

int MPI_File_open(MPI_Comm comm, char *filename, int amode, MPI_Info info, MPI_File *fh)
{
    (void)info;
    *fh = MPI_FILE_NULL;
    if (known(comm)) return MPI_ERR_COMM;
    int file = open(filename, amode | O_CLOEXEC, 0666);
    if (file < 0) return errno;
    if (file == MPI_FILE_NULL) { /* standard input was closed, and 0 means none */
        int other = fcntl(file, F_DUPFD_CLOEXEC, 1), cause = errno;
        close(file);
        if (other < 0) return cause;
        file = other;
    }
    *fh = file;
    return MPI_SUCCESS;
}

int MPI_File_close(MPI_File *fh)
{
    int code = close(*fh) == 0 ? MPI_SUCCESS : errno;
    *fh = MPI_FILE_NULL;
    return code;
}

int MPI_File_get_size(MPI_File fh, MPI_Offset *size)
{
    struct stat about;
    if (fstat(fh, &about) != 0) return errno;
    *size = (MPI_Offset)about.st_size;
    return MPI_SUCCESS;
}

int MPI_File_read(MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status)
{
    if (status) *status = 0;
    if (!width(datatype)) return MPI_ERR_TYPE;
    if (count < 0) return MPI_ERR_COUNT;
    size_t wanted = (size_t)count * (size_t)width(datatype), have = 0;
    while (have < wanted) {
        ssize_t n = read(fh, (char *)buf + have, wanted - have);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        if (n == 0) break;
        have += (size_t)n;
    }
    if (status) *status = have;
    return MPI_SUCCESS;
}

int MPI_File_seek(MPI_File fh, MPI_Offset offset, int whence)
{
    return lseek(fh, (off_t)offset, whence) < 0 ? errno : MPI_SUCCESS;
}

int MPI_Get_count(MPI_Status *status, MPI_Datatype datatype, int *count)
{
    if (!width(datatype)) return MPI_ERR_TYPE;
    *count = (int)(*status / (unsigned)width(datatype));
    return MPI_SUCCESS;
}
