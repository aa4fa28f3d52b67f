//! Meshes become the attributes that ADIOS 1.13 writes for the same document. The expected list is what its `bpls -la`
//! printed; only the order inside a mesh and `time-series-format`, which it loses, differ.

use std::collections::BTreeMap;
use thalweg_schema::{AttributeSource, mesh_attributes, parse};
use thalweg_types::Value;

const DOCUMENT: &str = r#"<adios-config schema-version="1.1" host-language="C">
  <adios-group name="g" time-index="it">
    <var name="nx" path="" type="integer"/>
    <var name="ny" path="/aux" type="integer"/>
    <mesh name="uni" type="uniform" time-varying="no">
      <nspace value="2"/><dimensions value="nx,4"/><origin value="0.5,1"/><spacing value="1.5,ny"/><maximum value="9,10"/>
    </mesh>
    <mesh name="rect" type="rectilinear" time-varying="yes" time-steps="nx" time-scale="0,0.5,10" group="g">
      <nspace value="2"/><dimensions value="nx,ny"/><coordinates-multi-var value="X,Y"/>
    </mesh>
    <mesh name="rects" type="rectilinear"><dimensions value="nx,ny"/><coordinates-single-var value="X"/></mesh>
    <mesh name="str" type="structured" time-steps="0,5">
      <nspace value="2"/><dimensions value="nx,ny"/><points-multi-var value="X,Y"/></mesh>
    <mesh name="strs" type="structured"><dimensions value="nx,ny"/><points-single-var value="X"/></mesh>
    <mesh name="uns" type="unstructured"><nspace value="2"/><number-of-points value="nx"/>
      <points-single-var value="X"/><uniform-cells count="nx" data="C" type="triangle"/></mesh>
    <mesh name="mix" type="unstructured"><points-multi-var value="X,Y"/>
      <mixed-cells count="nx,12" data="C,D" type="triangle,quad"/></mesh>
    <mesh name="far" type="uniform" file="other.bp" group="og"/>
    <var name="X" type="double" dimensions="nx"/>
    <var name="Y" type="double" dimensions="nx"/>
    <var name="C" type="integer" dimensions="nx"/>
    <var name="D" type="integer" dimensions="nx"/>
    <var name="data" path="/p" type="double" mesh="uni" center="point" dimensions="nx" time-steps="nx" time-scale="0.5" hyperslab="0,32"/>
    <var name="data2" type="double" mesh="rect" center="cell" dimensions="nx" time-steps="0,10" hyperslab="0,1,32"/>
    <var name="data3" type="double" mesh="rect" center="cell" dimensions="nx" time-steps="0,10,2" hyperslab="nx"/>
  </adios-group>
  <method group="g" method="POSIX"/>
</adios-config>"#;

const EXPECTED: &str = r#"
string   /adios_schema/version_major              attr   = "1"
string   /adios_schema/version_minor              attr   = "1"
string   /adios_schema/uni/type                   attr   = "uniform"
string   /adios_schema/uni/time-varying           attr   = "no"
string   /adios_schema/uni/nspace                 attr   = "2"
string   /adios_schema/uni/dimensions0            attr   = "nx"
string   /adios_schema/uni/dimensions1            attr   = "4"
integer  /adios_schema/uni/dimensions-num         attr   = 2
string   /adios_schema/uni/origins0               attr   = "0.5"
string   /adios_schema/uni/origins1               attr   = "1"
integer  /adios_schema/uni/origins-num            attr   = 2
string   /adios_schema/uni/spacings0              attr   = "1.5"
string   /adios_schema/uni/spacings1              attr   = "ny"
integer  /adios_schema/uni/spacings-num           attr   = 2
string   /adios_schema/uni/maximums0              attr   = "9"
string   /adios_schema/uni/maximums1              attr   = "10"
integer  /adios_schema/uni/maximums-num           attr   = 2
string   /adios_schema/rect/type                  attr   = "rectilinear"
string   /adios_schema/rect/time-varying          attr   = "yes"
string   /adios_schema/rect/time-steps-var        attr   = "nx"
double   /adios_schema/rect/time-scale-start      attr   = 0
double   /adios_schema/rect/time-scale-stride     attr   = 0.5
double   /adios_schema/rect/time-scale-count      attr   = 10
string   /adios_schema/rect/mesh-group            attr   = "g"
string   /adios_schema/rect/nspace                attr   = "2"
string   /adios_schema/rect/dimensions0           attr   = "nx"
string   /adios_schema/rect/dimensions1           attr   = "ny"
integer  /adios_schema/rect/dimensions-num        attr   = 2
string   /adios_schema/rect/coords-multi-var0     attr   = "X"
string   /adios_schema/rect/coords-multi-var1     attr   = "Y"
integer  /adios_schema/rect/coords-multi-var-num  attr   = 2
string   /adios_schema/rects/type                 attr   = "rectilinear"
string   /adios_schema/rects/time-varying         attr   = "no"
string   /adios_schema/rects/dimensions0          attr   = "nx"
string   /adios_schema/rects/dimensions1          attr   = "ny"
integer  /adios_schema/rects/dimensions-num       attr   = 2
string   /adios_schema/rects/coords-single-var    attr   = "X"
string   /adios_schema/str/type                   attr   = "structured"
string   /adios_schema/str/time-varying           attr   = "no"
double   /adios_schema/str/time-steps-min         attr   = 0
double   /adios_schema/str/time-steps-max         attr   = 5
string   /adios_schema/str/nspace                 attr   = "2"
string   /adios_schema/str/dimensions0            attr   = "nx"
string   /adios_schema/str/dimensions1            attr   = "ny"
integer  /adios_schema/str/dimensions-num         attr   = 2
string   /adios_schema/str/points-multi-var0      attr   = "X"
string   /adios_schema/str/points-multi-var1      attr   = "Y"
integer  /adios_schema/str/points-multi-var-num   attr   = 2
string   /adios_schema/strs/type                  attr   = "structured"
string   /adios_schema/strs/time-varying          attr   = "no"
string   /adios_schema/strs/dimensions0           attr   = "nx"
string   /adios_schema/strs/dimensions1           attr   = "ny"
integer  /adios_schema/strs/dimensions-num        attr   = 2
string   /adios_schema/strs/points-single-var     attr   = "X"
string   /adios_schema/uns/type                   attr   = "unstructured"
string   /adios_schema/uns/time-varying           attr   = "no"
string   /adios_schema/uns/nspace                 attr   = "2"
string   /adios_schema/uns/npoints                attr   = "nx"
string   /adios_schema/uns/points-single-var      attr   = "X"
integer  /adios_schema/uns/ncsets                 attr   = 1
string   /adios_schema/uns/ccount                 attr   = "nx"
string   /adios_schema/uns/cdata                  attr   = "C"
string   /adios_schema/uns/ctype                  attr   = "triangle"
string   /adios_schema/mix/type                   attr   = "unstructured"
string   /adios_schema/mix/time-varying           attr   = "no"
string   /adios_schema/mix/points-multi-var0      attr   = "X"
string   /adios_schema/mix/points-multi-var1      attr   = "Y"
integer  /adios_schema/mix/points-multi-var-num   attr   = 2
string   /adios_schema/mix/ccount0                attr   = "nx"
string   /adios_schema/mix/ccount1                attr   = "12"
integer  /adios_schema/mix/ncsets                 attr   = 2
string   /adios_schema/mix/cdata0                 attr   = "C"
string   /adios_schema/mix/cdata1                 attr   = "D"
string   /adios_schema/mix/ctype0                 attr   = "triangle"
string   /adios_schema/mix/ctype1                 attr   = "quad"
string   /adios_schema/far/type                   attr   = "uniform"
string   /adios_schema/far/time-varying           attr   = "no"
string   /adios_schema/far/mesh-file              attr   = "other.bp"
string   /adios_schema/far/mesh-group             attr   = "og"
string   /p/data/adios_schema                     attr   = "uni"
string   /p/data/adios_schema/centering           attr   = "point"
string   /p/data/adios_schema/time-steps-var      attr   = "nx"
double   /p/data/adios_schema/time-scale-count    attr   = 0.5
string   /p/data/adios_schema/min                 attr   = "0"
string   /p/data/adios_schema/max                 attr   = "32"
string   data2/adios_schema                       attr   = "rect"
string   data2/adios_schema/centering             attr   = "cell"
double   data2/adios_schema/time-steps-min        attr   = 0
double   data2/adios_schema/time-steps-max        attr   = 10
string   data2/adios_schema/start                 attr   = "0"
string   data2/adios_schema/stride                attr   = "1"
string   data2/adios_schema/count                 attr   = "32"
string   data3/adios_schema                       attr   = "rect"
string   data3/adios_schema/centering             attr   = "cell"
double   data3/adios_schema/time-steps-start      attr   = 0
double   data3/adios_schema/time-steps-stride     attr   = 10
double   data3/adios_schema/time-steps-count      attr   = 2
string   data3/adios_schema/singleton             attr   = "nx"
"#;

#[test]
fn mesh_attributes_are_those_of_the_reference() {
    let schema = parse(DOCUMENT, "config.xml").unwrap_or_else(|report| panic!("{report}"));
    let attributes = mesh_attributes(&schema.groups[0]);
    let ours: BTreeMap<String, String> = attributes
        .iter()
        .map(|a| {
            let AttributeSource::One(value) = &a.value else { panic!("{a:?}") };
            let shown = if let Value::String(_) = value { format!("\"{value}\"") } else { value.to_string() };
            (a.full_name(), format!("{} {shown}", value.element_type()))
        })
        .collect();
    let reference: BTreeMap<String, String> = EXPECTED
        .lines()
        .filter(|l| !l.is_empty())
        .map(|line| {
            let [element, name, _, _, value] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            (name.to_string(), format!("{element} {value}"))
        })
        .collect();
    assert_eq!(ours, reference);
    let ids: Vec<u32> = attributes.iter().map(|a| a.id).collect();
    assert_eq!(ids, (10..10 + reference.len() as u32).collect::<Vec<u32>>(), "behind those of the group, none twice");
}

#[test]
fn a_group_without_meshes_has_no_such_attributes() {
    let text = r#"<adios-config host-language="C"><adios-group name="g"><var name="a" type="byte"/></adios-group></adios-config>"#;
    assert_eq!(mesh_attributes(&parse(text, "config.xml").unwrap().groups[0]), []);
}
