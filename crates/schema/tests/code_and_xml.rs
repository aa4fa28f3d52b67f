//! A schema declared from code is the same as the one of the document that says the same.

use thalweg_schema::{Buffer, BufferLimit, GroupBuilder, Schema, Statistics, TimeMarks, parse};
use thalweg_types::{ElementType, Result, Value};

const DOCUMENT: &str = r#"<adios-config host-language="C" schema-version="1.1">
  <adios-group name="fields" time-index="iter" stats="minmax" coordination-communicator="comm" coordination-var="nx">
    <var name="nx" path="/box" type="integer"/>
    <var name="gx" path="/box" type="integer"/>
    <attribute name="ghosts" type="integer" value="2"/>
    <attribute name="writer" var="nx"/>
    <attribute name="labels" type="string array" value="U,V"/>
    <global-bounds dimensions="gx,2*gx" offsets="0,nx*ghosts">
      <var name="u" type="double" dimensions="iter,nx,gx" mesh="grid" center="point" transform="zlib:5" copy-on-write="no"/>
    </global-bounds>
    <var name="x" type="real" dimensions="nx" time-steps="0,10" hyperslab="0,4"/>
    <var name="cells" type="integer" dimensions="nx,3"/>
    <mesh name="grid" type="uniform" time-varying="yes"><nspace value="2"/><dimensions value="gx, gx"/><origin value="0,0.5"/></mesh>
    <mesh name="lines" type="rectilinear" time-steps="10"><dimensions value="nx"/><coordinates-single-var value="x"/></mesh>
    <mesh name="bent" type="structured"><dimensions value="nx,nx"/><points-multi-var value="x,x"/></mesh>
    <mesh name="tri" type="unstructured"><points-multi-var value="x,x"/><number-of-points value="nx"/>
      <mixed-cells count="nx,4" data="cells,cells" type="triangle,quad"/></mesh>
    <mesh name="far" type="uniform" file="grid.bp" group="grids"><dimensions value="a,b"/></mesh>
  </adios-group>
  <adios-group name="restart"><var name="state" type="byte" dimensions="4096"/></adios-group>
  <method group="fields" method="MPI" base-path="out/">stripe_count=4;verbose</method>
  <method group="fields" method="POSIX"/>
  <method group="restart" method="POSIX"/>
  <buffer max-size-MB="4"/>
</adios-config>"#;

fn declared() -> Result<Schema> {
    let mut g = GroupBuilder::new("fields")?;
    g.set_time_index("iter")?;
    g.set_statistics(Statistics::MinMax);
    g.set_coordination("comm", "nx");
    g.set_schema_version("1.1")?;
    g.define_variable("nx", "/box", ElementType::I32, "", "", "")?;
    g.define_variable("gx", "/box", ElementType::I32, "", "", "")?;
    g.define_attribute("ghosts", "", ElementType::I32, "2")?;
    g.define_attribute_from("writer", "", "nx")?;
    let labels = ["U", "V"].map(|t| Value::String(t.into())).to_vec();
    g.define_attribute_values("labels", "", ElementType::StringArray, labels)?;
    let u = g.define_variable("u", "", ElementType::F64, "iter,nx,gx", "gx,2*gx", "0,nx*ghosts")?;
    g.set_transform(u, "zlib:5")?;
    g.variable_mut(u).unwrap().copy_on_write = false;
    g.set_variable_mesh("u", "grid")?;
    g.set_variable_centering("u", "point")?;
    g.define_variable("x", "", ElementType::F32, "/box/nx", "", "")?;
    g.set_variable_time("x", TimeMarks { steps: Some("0,10".into()), ..TimeMarks::default() })?;
    g.set_variable_hyperslab("x", "0,4")?;
    g.define_variable("cells", "", ElementType::I32, "nx,3", "", "")?;
    g.define_mesh_uniform("grid", "gx,gx", Some("0,0.5"), None, Some(""), Some("2"))?;
    g.mesh_mut("grid")?.time_varying = true;
    g.define_mesh_rectilinear("lines", "nx", "x", None)?;
    g.mesh_mut("lines")?.time.steps = Some("10".into());
    g.define_mesh_structured("bent", "nx,nx", "x,x", None)?;
    g.define_mesh_unstructured("tri", "x,x", "cells,cells", "nx,4", "triangle,quad", Some("nx"), None)?;
    g.define_mesh_uniform("far", "a,b", None, None, None, None)?;
    g.mesh_mut("far")?.file = Some("grid.bp".into());
    g.mesh_mut("far")?.group = Some("grids".into());
    g.select_method("MPI", "stripe_count=4;verbose", "out")?;
    g.select_method("POSIX", "", "")?;

    let mut restart = GroupBuilder::new("restart")?;
    restart.set_schema_version("1.1")?;
    restart.define_variable("state", "", ElementType::I8, "4096", "", "")?;
    restart.select_method("POSIX", "", "")?;

    let buffer = Buffer { limit: BufferLimit::Bytes(4 << 20), ..Buffer::default() };
    let mut schema = Schema { buffer, ..Schema::default() };
    schema.declare(g)?;
    schema.declare(restart)?;
    Ok(schema)
}

#[test]
fn code_and_document_give_the_same_schema() {
    let document = parse(DOCUMENT, "config.xml").unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(declared().unwrap(), document);
}

#[test]
fn a_group_from_a_document_can_be_extended_from_code() {
    let mut schema = parse(DOCUMENT, "config.xml").unwrap();
    let mut group = GroupBuilder::from_group(schema.groups.remove(0));
    group.define_variable("more", "", ElementType::F64, "nx", "", "").unwrap();
    let ids = group.group().variables.iter().map(|v| v.id).chain(group.group().attributes.iter().map(|a| a.id));
    let mut sorted: Vec<u32> = ids.collect();
    sorted.sort_unstable();
    assert_eq!(sorted, (1..=9).collect::<Vec<u32>>());
    schema.declare(group).unwrap();
    let again = GroupBuilder::new("fields").unwrap();
    assert!(schema.declare(again).unwrap_err().to_string().contains("declared already"));
}
