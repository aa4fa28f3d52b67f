/* Forward declarations of the structures of adios_read.h. */
#ifndef THALWEG_ADIOS_READ_V2_FWD_H
#define THALWEG_ADIOS_READ_V2_FWD_H

typedef struct _ADIOS_FILE ADIOS_FILE;
typedef struct _ADIOS_VARSTAT ADIOS_VARSTAT;
typedef struct _ADIOS_VARBLOCK ADIOS_VARBLOCK;
typedef struct _ADIOS_VARMESH ADIOS_VARMESH;
typedef struct _ADIOS_VARINFO ADIOS_VARINFO;
typedef struct _ADIOS_VARCHUNK ADIOS_VARCHUNK;

#endif
