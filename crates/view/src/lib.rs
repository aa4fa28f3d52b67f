//! What a process sees of an open file; shared by the doors and `thalweg_file_*`.
