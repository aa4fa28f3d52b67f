//! The FUSE door: the files of a mount for every program of the machine.
