-- A module file for Lmod, filled in by ./dev install.
help([[
Thalweg @version@: I/O for parallel simulations.

  thalweg help                      the command
  pkg-config --cflags --libs thalweg  for C and C++ with MPI (thalweg-nompi: without)
  thalweg-config -f -l              for Fortran
]])
whatis("Name: thalweg")
whatis("Version: @version@")
whatis("Description: I/O for parallel simulations: ADIOS 1.x interface, BP files, any storage")
conflict("thalweg")

local prefix = "@prefix@"
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
prepend_path("PKG_CONFIG_PATH", "@libdir@/pkgconfig")
-- CMake looks for lib64 below a prefix on some systems alone.
prepend_path("CMAKE_PREFIX_PATH", "@libdir@/cmake/thalweg")
