/* Types and constants of all headers, and no function. */
#include <adios.h>
#include <adios_query.h>
#include <adios_read.h>
#include <stdio.h>
#include <thalweg.h>

int main(void)
{
    enum ADIOS_DATATYPES type = adios_double;
    ADIOS_FILE *file = NULL;
    thalweg_output *output = NULL;
    printf("%d %d\n", (int)type, err_no_error);
    return file != NULL || output != NULL || sizeof(ADIOS_VARINFO) == 0;
}
