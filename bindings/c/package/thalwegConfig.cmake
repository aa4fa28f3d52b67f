# find_package(thalweg): imported targets for what is installed beside this file.
#
#   thalweg::openmpi  thalweg::mpich  thalweg::nompi   the C library for that MPI, or for one process without any
#   thalweg::openmpi-static ...                        the same as part of the program
#   thalweg::thalweg                                   one of these: that of the MPI of plain mpicc when this was installed
#   thalweg::cpp                                       thalweg.hpp; link one of the above beside it
#   thalweg::fortran-openmpi ... thalweg::fortran      modules and library for Fortran, which bring the C library along
#
# MPI itself is the program's choice: find_package(MPI), and MPI::MPI_C or the like beside these.

get_filename_component(_thalweg_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_thalweg_prefix "@up@" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_LIST_DIR}")
set(_thalweg_default @default@)
set(_thalweg_include "${_thalweg_prefix}/include/thalweg")

function(_thalweg_library target file)
    if(NOT TARGET thalweg::${target} AND EXISTS "${_thalweg_lib}/${file}")
        add_library(thalweg::${target} SHARED IMPORTED)
        set_target_properties(thalweg::${target} PROPERTIES
            IMPORTED_LOCATION "${_thalweg_lib}/${file}"
            IMPORTED_SONAME "${file}.@abi@")
    endif()
endfunction()

_thalweg_library(core libthalweg-core.so)
foreach(_thalweg_mpi openmpi mpich nompi)
    _thalweg_library(${_thalweg_mpi} libthalweg-${_thalweg_mpi}.so)
    if(TARGET thalweg::${_thalweg_mpi})
        set_target_properties(thalweg::${_thalweg_mpi} PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES "${_thalweg_include}"
            INTERFACE_LINK_LIBRARIES thalweg::core)
    endif()
    if(NOT TARGET thalweg::${_thalweg_mpi}-static AND EXISTS "${_thalweg_lib}/libthalweg-${_thalweg_mpi}.a")
        add_library(thalweg::${_thalweg_mpi}-static STATIC IMPORTED)
        set_target_properties(thalweg::${_thalweg_mpi}-static PROPERTIES
            IMPORTED_LOCATION "${_thalweg_lib}/libthalweg-${_thalweg_mpi}.a"
            INTERFACE_INCLUDE_DIRECTORIES "${_thalweg_include}"
            INTERFACE_LINK_LIBRARIES "${_thalweg_lib}/libthalweg-core.a;m;pthread;dl;gcc_s")
    endif()
    _thalweg_library(fortran-${_thalweg_mpi} libthalweg-fortran-${_thalweg_mpi}.so)
    if(TARGET thalweg::fortran-${_thalweg_mpi})
        set_target_properties(thalweg::fortran-${_thalweg_mpi} PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES "${_thalweg_include}/fortran/${_thalweg_mpi}"
            INTERFACE_LINK_LIBRARIES thalweg::${_thalweg_mpi})
    endif()
endforeach()
foreach(_thalweg_alone nompi nompi-static)
    if(TARGET thalweg::${_thalweg_alone})
        set_target_properties(thalweg::${_thalweg_alone} PROPERTIES INTERFACE_COMPILE_DEFINITIONS _NOMPI)
    endif()
endforeach()

if(NOT TARGET thalweg::thalweg)
    add_library(thalweg::thalweg INTERFACE IMPORTED)
    set_target_properties(thalweg::thalweg PROPERTIES INTERFACE_LINK_LIBRARIES thalweg::${_thalweg_default})
    if(TARGET thalweg::fortran-${_thalweg_default})
        add_library(thalweg::fortran INTERFACE IMPORTED)
        set_target_properties(thalweg::fortran PROPERTIES INTERFACE_LINK_LIBRARIES thalweg::fortran-${_thalweg_default})
    endif()
    add_library(thalweg::cpp INTERFACE IMPORTED)
    # The C++ bindings that old MPI headers bring along are not needed, and full of warnings.
    set_target_properties(thalweg::cpp PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${_thalweg_include}"
        INTERFACE_COMPILE_FEATURES cxx_std_17
        INTERFACE_COMPILE_DEFINITIONS "OMPI_SKIP_MPICXX=1;MPICH_SKIP_MPICXX=1")
endif()

foreach(_thalweg_part IN LISTS thalweg_FIND_COMPONENTS)
    if(TARGET thalweg::${_thalweg_part})
        set(thalweg_${_thalweg_part}_FOUND TRUE)
    elseif(thalweg_FIND_REQUIRED_${_thalweg_part})
        set(thalweg_FOUND FALSE)
        set(thalweg_NOT_FOUND_MESSAGE "thalweg::${_thalweg_part} is not installed in ${_thalweg_prefix}")
    endif()
endforeach()
