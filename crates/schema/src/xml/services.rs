//! `services`: what happens to the outputs of a group on their way.

use super::Reader;
use super::element_attributes::ElementAttributes;
use super::elements::{
    BINS, FUNCTION, HISTOGRAM, MAX, MIN, REORGANIZE, SERVICES, STATISTICS_SERVICE, TIMEOUT, TRANSFORM, VALUES,
};
use crate::attribute::parse_type;
use crate::model::SourcePosition;
use crate::services::{self, Function, FunctionFile, Service, Services, Work};
use roxmltree::Node;
use std::time::Duration;
use thalweg_diagnostics::Problem;

const SERVICE_ELEMENTS: &[&str] = &["statistics", "histogram", "reorganize", "transform", "function"];

impl<'a> Reader<'a> {
    pub(super) fn services(&mut self, node: Node<'a, 'a>) {
        let attributes = self.attributes(node, SERVICES);
        let group = self.group_name(&attributes, "group", "services");
        let output = attributes.text("output").unwrap_or_else(|| Services::OUTPUT.into());
        let source = SourcePosition(Some(attributes.element));
        if output.trim_end_matches(".bp") == "%" {
            let problem = Problem::new("the output would replace the program's own file");
            self.report.error(attributes.span("output"), problem.expected("another name, as \"%.served.bp\""));
        }
        let mut all = Vec::new();
        let mut function_before = false;
        for (name, child) in self.children(node) {
            self.children(child).into_iter().for_each(|(_, inner)| self.unknown_element(inner, &name, &[]));
            let work = match name.as_str() {
                "statistics" => self.statistics_service(child),
                "histogram" => self.histogram(child),
                "reorganize" => {
                    if function_before {
                        let problem = Problem::new("<reorganize> behind a function, which works block by block");
                        self.report.error(self.element_span(child), problem.expected("<reorganize> before it"));
                    }
                    let is_one = |service: &Service| matches!(service.work, Work::Reorganize { .. });
                    if all.iter().any(is_one) {
                        self.report
                            .error(self.element_span(child), Problem::new("a second <reorganize>").expected("one"));
                    }
                    let attributes = self.attributes(child, REORGANIZE);
                    self.need(&attributes, "blocks", "reorganize")
                        .map(|found| Work::Reorganize { blocks: found.value.trim().to_string() })
                }
                "transform" => {
                    let attributes = self.attributes(child, TRANSFORM);
                    let variables = self.variables_of(&attributes, "transform");
                    let transform = self.need(&attributes, "type", "transform");
                    variables.zip(transform).map(|(variables, transform)| Work::Transform {
                        variables,
                        transform: transform.value.trim().to_string(),
                    })
                }
                "function" => {
                    function_before = true;
                    self.function(child)
                }
                _ => {
                    self.unknown_element(child, "services", SERVICE_ELEMENTS);
                    None
                }
            };
            let source = SourcePosition(Some(self.element_span(child)));
            all.extend(work.map(|work| Service { work, source }));
        }
        let Some(group) = group else { return };
        if let Some(before) = self.schema.services.iter().find(|services| services.group == group) {
            let problem = Problem::new(format!("group {:?} has services already", before.group));
            self.report.error(attributes.span("group"), problem.expected("one <services> for each group"));
            return;
        }
        let text = self.text.get(node.range()).unwrap_or("").to_string();
        self.schema.services.push(Services { group, output, services: all, text, source });
    }

    /// The names between commas of attribute `var`.
    fn variables_of(&mut self, attributes: &ElementAttributes<'a>, element: &str) -> Option<Vec<String>> {
        let found = self.need(attributes, "var", element)?;
        let names: Vec<String> =
            found.value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_string).collect();
        if names.is_empty() {
            self.report.error(found.span, Problem::new("no variable").expected("names between commas"));
            return None;
        }
        Some(names)
    }

    fn statistics_service(&mut self, node: Node<'a, 'a>) -> Option<Work> {
        let attributes = self.attributes(node, STATISTICS_SERVICE);
        let variables = self.variables_of(&attributes, "statistics")?;
        let level = self.statistics(&attributes).unwrap_or_default();
        Some(Work::Statistics { variables, level })
    }

    fn histogram(&mut self, node: Node<'a, 'a>) -> Option<Work> {
        let attributes = self.attributes(node, HISTOGRAM);
        let variables = self.variables_of(&attributes, "histogram");
        let bins = self.value::<u32>(&attributes, &BINS).unwrap_or(100);
        let (min, max) = (self.value::<f64>(&attributes, &MIN), self.value::<f64>(&attributes, &MAX));
        if let (Some(min), Some(max)) = (min, max)
            && min >= max
        {
            let problem = Problem::new(format!("min={min} is not below max={max}"));
            self.report.error(attributes.span("min"), problem);
        }
        Some(Work::Histogram { variables: variables?, bins, min, max })
    }

    fn function(&mut self, node: Node<'a, 'a>) -> Option<Work> {
        let attributes = self.attributes(node, FUNCTION);
        let variables = self.variables_of(&attributes, "function");
        let name = self.need(&attributes, "name", "function").map(|found| found.value.trim().to_string());
        let file = match (attributes.text("library"), attributes.text("python")) {
            (Some(library), None) => Some(FunctionFile::Library(library)),
            (None, Some(python)) => Some(FunctionFile::Python(python)),
            _ => {
                let problem = Problem::new("a function is in one file").expected("library=\"...\" or python=\"...\"");
                self.report.error(attributes.element, problem);
                None
            }
        };
        let element = attributes.get("type").and_then(|found| self.check(found.span, parse_type(found.value)));
        let values = self.value::<u32>(&attributes, &VALUES).map(u64::from);
        let timeout = self.value::<Duration>(&attributes, &TIMEOUT).unwrap_or(services::TIMEOUT);
        let (variables, into) = (variables?, attributes.text("into"));
        if into.is_none() && (element.is_some() || values.is_some()) {
            let problem = Problem::new("a result with another type or size replaces no variable");
            self.report.error(attributes.element, problem.expected("into=\"NAME\""));
        }
        Some(Work::Function(Function { file: file?, name: name?, variables, into, element, values, timeout }))
    }
}
