use super::*;

fn chart() -> Chart {
    Chart {
        title: "A curve".into(),
        x: Axis::bytes("cache size"),
        y: Axis::new("miss ratio").range(0.0, 1.0),
        series: vec![
            Series::line("observed", (0..=64).map(|i| (f64::from(i) * 1048576.0, 1.0 / f64::from(1 + i)))),
            Series::line("hull", [(0.0, 1.0), (67108864.0, 0.0)]).stroke(Stroke::Dashed).colour(0),
        ],
        categories: Vec::new(),
        marks: vec![
            Mark::At { x: 33554432.0, label: "now".into() },
            Mark::Range { from: 4194304.0, to: 16777216.0 },
            Mark::Level { y: 0.25, label: "target".into() },
            Mark::Text { x: 9e6, y: 0.8, label: "cliff".into() },
        ],
    }
}

#[test]
fn a_chart_has_its_words_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chart.svg");
    chart().write(&path).unwrap();
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.starts_with("<svg") || svg.starts_with("<?xml"), "{}", &svg[..60]);
    for word in
        ["A curve", "cache size", "miss ratio", "observed", "hull", "now", "target", "cliff", "32 MiB"]
    {
        assert!(svg.contains(word), "{word} is not in the picture");
    }
}

#[test]
fn a_figure_is_a_png_where_its_name_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figure.PNG");
    let log = Chart { x: Axis::new("items").log(), ..chart() };
    Figure { title: "Two".into(), charts: vec![chart(), log], columns: 0 }.write(&path).unwrap();
    assert!(std::fs::read(&path).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn what_cannot_be_drawn_is_refused_in_words() {
    let error = chart().write("chart.pdf".as_ref()).unwrap_err().to_string();
    assert!(error.contains("chart.pdf") && error.contains(".svg or .png"), "{error}");
    let empty = Chart { series: vec![Series::line("none", [(f64::NAN, 1.0)])], ..chart() };
    let error = empty.write("never-written.svg".as_ref()).unwrap_err().to_string();
    assert_eq!(error, "the chart \"A curve\" has no point to draw");
    let lost = chart().write("no/such/folder/chart.svg".as_ref()).unwrap_err().to_string();
    assert!(lost.starts_with("no/such/folder/chart.svg: "), "{lost}");
}

#[test]
fn points_that_are_no_numbers_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let spoilt = [(0.0, 0.5), (f64::INFINITY, 0.5), (1e9, f64::NAN), (2e9, 0.25)];
    let chart = Chart { series: vec![Series::line("spoilt", spoilt)], ..chart() };
    let path = folder.path().join("spoilt.svg");
    chart.write(&path).unwrap();
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn bars_have_their_names_and_are_cut_at_the_edge() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bars.svg");
    let bars = |most: f64| Chart {
        title: "Bars".into(),
        x: Axis::new("tenant"),
        y: Axis::new("times its share").range(0.0, 4.0),
        categories: vec!["T1".into(), "T2".into()],
        series: vec![Series::line("DRF", [(0.0, 1.0), (1.0, 2.0)]), Series::line("HARE", [(1.0, most)])],
        ..Chart::default()
    };
    let drawn = |chart: &Chart| {
        chart.write(&path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        // Pictures of one process are numbered.
        let parts = svg.split("kuva-clip-").map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
        parts.collect::<String>()
    };
    let svg = drawn(&bars(1000.0));
    for word in ["T1", "T2", "DRF", "HARE", "times its share"] {
        assert!(svg.contains(word), "{word} is not in the picture");
    }
    assert_eq!(svg, drawn(&bars(4.0)), "a bar ends at the edge of the chart");
    assert_ne!(svg, drawn(&bars(3.0)));
}
