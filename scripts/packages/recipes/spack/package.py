from spack.package import *


class Thalweg(Package):
    """I/O for parallel simulations: groups described in XML, methods chosen outside of the source, BP files on any storage."""

    license("Apache-2.0")

    version("main", branch="main")

    variant("mpi", default=True, description="libraries for the MPI at hand")
    variant("fortran", default=True, description="modules for gfortran")
    variant("hdf5", default=True, description="conversions of HDF5 files, views for HDF5 and VTK")
    variant("far", default=True, description="stores on HDFS and S3")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("rust@1.89:", type="build")
    depends_on("cmake", type="build")
    depends_on("gmake", type="build")
    depends_on("binutils", type="build")
    depends_on("llvm+clang", type="build")  # libclang
    depends_on("python@3.9:", type="build", when="+fortran")
    depends_on("mpi", when="+mpi")
    depends_on("hdf5@1.10:", when="+hdf5")

    def setup_build_environment(self, env):
        env.set("LIBCLANG_PATH", self.spec["llvm"].prefix.lib)
        if "+hdf5" in self.spec:
            env.set("HDF5_DIR", self.spec["hdf5"].prefix)

    def install(self, spec, prefix):
        options = ["--no-packages"]
        if "+mpi" in spec:
            options += ["--mpicc", spec["mpi"].mpicc]
        if "~far" in spec:
            options.append("--without-far-stores")
        Executable("./dev")("install", prefix, *options)
