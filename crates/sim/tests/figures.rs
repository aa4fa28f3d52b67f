//! Every figure is drawn: a table that reads, a picture that is well formed, published numbers that say how they were used.

use thalweg_sim::figure::{FIGURES, draw};

#[test]
fn figures_have_a_number_for_each_place_and_stand_beside_what_was_published() {
    for name in FIGURES {
        let figure = draw(name, 1).unwrap();
        assert_eq!(figure.name, name);
        for series in &figure.series {
            assert_eq!(series.y.len(), figure.x.len(), "{name}: {}", series.name);
            assert!(series.y.iter().all(|y| y.is_finite() && *y >= 0.0));
        }
        let table = figure.table();
        for place in &figure.x {
            assert!(table.contains(place.as_str()), "{table}");
        }
        assert!(!figure.published.is_empty());
        for published in &figure.published {
            assert!(
                table.contains(published.what) && table.contains(&published.ours) && table.contains(published.used)
            );
        }
        let picture = figure.picture();
        let document = roxmltree::Document::parse(&picture).unwrap();
        let lines =
            document.descendants().filter(|n| n.attribute("stroke-width") == Some("2") && n.has_tag_name("path"));
        // One in the picture and one in the legend.
        assert_eq!(lines.count(), 2 * figure.series.len(), "{name}");
        let of = |tag: &str| document.descendants().filter(|n| n.has_tag_name(tag)).count();
        let points = figure.x.len() * figure.series.len();
        let rings: Vec<_> = figure.published.iter().filter(|p| p.value.is_some()).map(|p| p.series).collect();
        // One for each value, and one in the legend for those of each line.
        let lines: std::collections::HashSet<_> = rings.iter().collect();
        assert_eq!(of("circle"), points + rings.len() + lines.len(), "{name}");
    }
    assert!(draw("cug2009-9", 1).unwrap_err().to_string().contains("cug2009-8"));
}
