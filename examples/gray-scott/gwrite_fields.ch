/* Made by `thalweg gen` of group fields in gray-scott.xml: change that, not this. */
adios_groupsize = 4
                + 4
                + 4
                + 4
                + 4
                + 4
                + 4
                + 4
                + 8
                + 8
                + 8
                + 8
                + 8
                + 8
                + (uint64_t) 8 * (s->count[0]) * (s->count[1]) * (s->count[2])
                + (uint64_t) 8 * (s->count[0]) * (s->count[1]) * (s->count[2]);
adios_group_size (adios_handle, adios_groupsize, &adios_totalsize);
adios_write (adios_handle, "L", &s->set.size);
adios_write (adios_handle, "nx", &s->count[0]);
adios_write (adios_handle, "ny", &s->count[1]);
adios_write (adios_handle, "nz", &s->count[2]);
adios_write (adios_handle, "ox", &s->offset[0]);
adios_write (adios_handle, "oy", &s->offset[1]);
adios_write (adios_handle, "oz", &s->offset[2]);
if (s->rank == 0) {
    adios_write (adios_handle, "step", &step);
    adios_write (adios_handle, "time", &time);
    adios_write (adios_handle, "F", &p->F);
    adios_write (adios_handle, "k", &p->k);
    adios_write (adios_handle, "Du", &p->Du);
    adios_write (adios_handle, "Dv", &p->Dv);
    adios_write (adios_handle, "dt", &p->dt);
}
solver_pack(s, s->u, packed);
adios_write (adios_handle, "u", packed);
solver_pack(s, s->v, packed);
adios_write (adios_handle, "v", packed);
