/* Made by `thalweg gen` of group restart in gray-scott.xml: change that, not this. */
adios_groupsize = 0;
adios_totalsize = 0;
adios_group_size (adios_handle, adios_groupsize, &adios_totalsize);
adios_write (adios_handle, "L", &s->set.size);
adios_write (adios_handle, "nx", &s->count[0]);
adios_write (adios_handle, "ny", &s->count[1]);
adios_write (adios_handle, "nz", &s->count[2]);
adios_write (adios_handle, "ox", &s->offset[0]);
adios_write (adios_handle, "oy", &s->offset[1]);
adios_write (adios_handle, "oz", &s->offset[2]);
adios_buf_size = 4;
adios_read (adios_handle, "step", &step, adios_buf_size);
adios_buf_size = (uint64_t) 8 * (s->count[0]) * (s->count[1]) * (s->count[2]);
adios_read (adios_handle, "u", packed, adios_buf_size);
adios_buf_size = (uint64_t) 8 * (s->count[0]) * (s->count[1]) * (s->count[2]);
adios_read (adios_handle, "v", packed_v, adios_buf_size);
