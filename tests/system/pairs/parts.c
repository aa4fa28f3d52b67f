/* A program of two shared libraries, one for one process and one of a real MPI, each with the library of Thalweg that is for it. */
int size_without_mpi(void); /* beside.c */
int pair(int argc, char **argv); /* pair.c, whose main is called so there */

int main(int argc, char **argv) { return size_without_mpi() == 1 ? pair(argc, argv) : 1; }
