//! Charts of made-up data: how they read, and that nothing hostile or extreme breaks them.

use cpumon_query::charts::{
    Bar, BarPart, Body, Cells, Chart, HeatmapRow, Hole, Ink, Line, Sparkline, Stroke, Times,
};
use resvg::usvg::roxmltree::Document;

use super::svg::ASCII;
use super::*;

const BEGIN_MS: f64 = 1_795_000_000_000.0;
const HOSTILE: &str = "<script>alert('x')</script>]]>\u{1b}[2J\u{202e}&";

pub(super) fn times(count: u32, width_ms: f64) -> Times {
    let begin_ms: Vec<f64> = (0..count).map(|at| BEGIN_MS + f64::from(at) * width_ms).collect();
    Times { covered_ms: vec![width_ms; begin_ms.len()], begin_ms, width_ms }
}

fn line(label: &str, ink: Ink, stroke: Stroke, values: &[Option<f64>]) -> Line {
    Line { label: label.into(), key: None, ink, stroke, values: values.to_vec(), highest: Vec::new() }
}

fn chart(body: Body, count: u32) -> Chart {
    Chart {
        title: "kitchen: CPU by mode".into(),
        unit: "%CPU: 100 = one CPU".into(),
        since_ms: BEGIN_MS,
        until_ms: BEGIN_MS + f64::from(count) * 60_000.0,
        times: times(count, 60_000.0),
        body,
        holes: Vec::new(),
        absences: Vec::new(),
        notes: Vec::new(),
        empty: None,
    }
}

/// Six minutes without the fourth.
fn stacked() -> Chart {
    let user = [Some(20.0), Some(40.0), Some(40.0), None, Some(10.0), Some(0.0)];
    let system = [Some(5.0), Some(5.0), Some(30.0), None, Some(15.0), Some(0.0)];
    let lines = vec![
        line("user", Ink::Named("user"), Stroke::Area, &user),
        line("system", Ink::Named("system"), Stroke::Area, &system),
        line(
            "largest in a point",
            Ink::Named("dim"),
            Stroke::Dashed,
            &[Some(80.0), Some(90.0), Some(90.0), None, Some(30.0), Some(2.0)],
        ),
    ];
    let mut chart = chart(Body::Lines { lines, max: Some(100.0) }, 6);
    chart.holes.push(Hole {
        begin_ms: BEGIN_MS + 180_000.0,
        end_ms: BEGIN_MS + 240_000.0,
        reason: "restart".into(),
    });
    chart.holes.push(Hole {
        begin_ms: BEGIN_MS + 300_000.0,
        end_ms: BEGIN_MS + 301_500.0,
        reason: "queue full".into(),
    });
    chart
}

fn heatmap(rows: Vec<HeatmapRow>, max: f64) -> Body {
    Body::Heatmap { rows, cells: Cells::Mean, max }
}

/// Nothing was measured in a hole.
fn miss(chart: &mut Chart, hole: Hole) {
    let Times { begin_ms, width_ms, covered_ms } = &mut chart.times;
    for (begin_ms, covered_ms) in begin_ms.iter().zip(covered_ms) {
        *covered_ms -= (hole.end_ms.min(begin_ms + *width_ms) - hole.begin_ms.max(*begin_ms)).max(0.0);
    }
    chart.holes.push(hole);
}

fn heat(rows: usize, columns: u32) -> Chart {
    let row = |nth: usize| HeatmapRow {
        name: format!("worker/{nth}"),
        values: (0..columns)
            .map(|at| (at != 3).then(|| f64::from(at * 7 % 50) / (1.0 + nth as f64)))
            .collect(),
        ..HeatmapRow::default()
    };
    let mut chart = chart(heatmap((0..rows).map(row).collect(), 50.0), columns);
    let (begin_ms, end_ms) = (BEGIN_MS + 180_000.0, BEGIN_MS + 240_000.0);
    miss(&mut chart, Hole { begin_ms, end_ms, reason: "restart".into() });
    chart
}

#[test]
fn a_cell_of_a_task_that_was_not_there_is_blank_and_the_scale_says_so() {
    let rows = |values: [Option<f64>; 3]| {
        [[Some(4.0), Some(0.0), Some(1.0)], values]
            .map(|values| HeatmapRow { name: "w".into(), values: values.into(), ..HeatmapRow::default() })
            .to_vec()
    };
    let drawn = |values| svg(&chart(heatmap(rows(values), 4.0), 3), &small(Theme::Light));
    let (there, ended) = (drawn([Some(1.0), Some(0.0), Some(0.0)]), drawn([Some(1.0), None, None]));
    assert!(ended.contains("not running") && !there.contains("not running"));
    // Cells in the colour of 0: one is left.
    let zeros = |document: &str| {
        let path = document.split("<path").find(|path| path.contains("z\" fill=\"#eaf0f5\"")).unwrap();
        path.matches('M').count()
    };
    assert_eq!((zeros(&there), zeros(&ended)), (2, 1));
}

/// Its chart had blank time without an explanation: only where another row had a value was a point known to be measured.
#[test]
fn the_scale_names_the_time_before_and_after_a_single_row() {
    let row = |values: [Option<f64>; 4]| {
        vec![HeatmapRow { name: "w".into(), values: values.into(), ..HeatmapRow::default() }]
    };
    let drawn = |rows, holes: &[Hole]| {
        let mut chart = chart(heatmap(rows, 4.0), 4);
        for hole in holes {
            miss(&mut chart, hole.clone());
        }
        svg(&chart, &small(Theme::Light))
    };
    let hole = |first: f64, last: f64| Hole {
        begin_ms: BEGIN_MS + first * 60_000.0,
        end_ms: BEGIN_MS + last * 60_000.0,
        reason: "restart".into(),
    };
    assert!(drawn(row([None, Some(1.0), Some(0.0), None]), &[]).contains("not running"));
    assert!(drawn(row([None, Some(1.0), Some(0.0), None]), &[hole(0.0, 1.0)]).contains("not running"));
    let with_holes = drawn(row([None, Some(1.0), Some(0.0), None]), &[hole(-1.0, 0.8), hole(3.2, 4.0)]);
    assert!(!with_holes.contains("not running") && with_holes.contains("no data"));
}

/// `count` CPUs; the second one, if there is one, reports nothing.
fn cpus(count: usize) -> Chart {
    let part = |label: &str, color| BarPart { label: label.into(), ink: Ink::Named(color) };
    let bar = |nth: usize| {
        let user = (nth * 37 % 90) as f64;
        Bar {
            name: if count <= 64 { format!("CPU {nth}") } else { nth.to_string() },
            shares: if nth == 1 { Vec::new() } else { vec![user, 4.25, 0.5] },
        }
    };
    let body = Body::Bars {
        bars: (0..count).map(bar).collect(),
        parts: vec![part("user", "user"), part("system", "system"), part("softirq", "softirq")],
        rest: part("idle", "idle"),
    };
    let mut chart = chart(body, 1);
    chart.notes.push("One interval of 1.000 s.".into());
    chart
}

/// `count` hosts over ten minutes; the fourth minute of each third host is missing.
fn fleet(count: usize) -> Chart {
    let row = |nth: usize| {
        let value =
            |at: usize| (!nth.is_multiple_of(3) || at != 3).then_some((nth * 13 + at * 7) as f64 % 60.0);
        let values: Vec<Option<f64>> = (0..10).map(value).collect();
        Sparkline {
            name: format!("host-{nth:02}"),
            times: times(10, 60_000.0),
            highest: values.iter().map(|value| value.map(|value| value * 1.5)).collect(),
            mean: Some(30.5),
            holes: if nth.is_multiple_of(3) {
                let begin_ms = BEGIN_MS + 180_000.0;
                vec![Hole { begin_ms, end_ms: begin_ms + 60_000.0, reason: "restart".into() }]
            } else {
                Vec::new()
            },
            empty: None,
            values,
        }
    };
    chart(Body::Sparklines { rows: (0..count).map(row).collect(), max: 100.0 }, 10)
}

/// Width and height of a document.
fn sides(text: &str) -> (f64, f64) {
    let document = Document::parse(text).unwrap();
    let side = |name| document.root_element().attribute(name).unwrap().parse().unwrap();
    (side("width"), side("height"))
}

/// The texts of a document with their positions.
fn texts_of(text: &str) -> Vec<(f64, f64, String)> {
    let document = Document::parse(text).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    let place = |node: resvg::usvg::roxmltree::Node<'_, '_>| {
        let at = |name| node.attribute(name).unwrap().parse().unwrap();
        (at("x"), at("y"), node.text().unwrap_or_default().to_owned())
    };
    texts.map(place).collect()
}

fn svg(chart: &Chart, options: &RenderOptions) -> String {
    let bytes = draw(chart, options, PictureForm::Svg).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    Document::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    text
}

fn small(theme: Theme) -> RenderOptions {
    RenderOptions { width: Some(480), height: Some(300), theme, ..RenderOptions::default() }
}

#[test]
fn a_stack_reads_like_this() {
    insta::assert_snapshot!(svg(&stacked(), &small(Theme::Light)));
}

#[test]
fn lines_read_like_this() {
    let values = [Some(1.0), Some(2.0), None, Some(0.0), Some(0.0), Some(0.0)];
    let mut one = line("postgres", Ink::Nth(0), Stroke::Solid, &values);
    one.highest = values.iter().map(|value| value.map(|value| value * 2.0)).collect();
    let again = line("postgres too", Ink::Nth(8), Stroke::Solid, &values);
    let mut chart = chart(Body::Lines { lines: vec![one, again], max: None }, 6);
    chart.notes.push("Faint: the highest single interval in each point.".into());
    let options = RenderOptions { zone: "Europe/Berlin".parse().unwrap(), ..small(Theme::Dark) };
    insta::assert_snapshot!(svg(&chart, &options));
}

#[test]
fn a_heatmap_reads_like_this() {
    insta::assert_snapshot!(svg(&heat(2, 8), &small(Theme::Light)));
}

#[test]
fn bars_read_like_this() {
    insta::assert_snapshot!(svg(&cpus(3), &small(Theme::Light)));
}

#[test]
fn small_lines_read_like_this() {
    insta::assert_snapshot!(svg(&fleet(2), &small(Theme::Dark)));
}

#[test]
fn bars_of_a_thousand_cpus_are_a_picture_whose_names_can_be_read() {
    for count in [1, 2, 16, 17, 100, 128, 256, 1024] {
        let text = svg(&cpus(count), &RenderOptions::default());
        let ((width, height), texts) = (sides(&text), texts_of(&text));
        assert!(height <= 2700.0, "{count}: {height}");
        let names: Vec<_> = texts
            .iter()
            .filter(|(_, _, text)| text.trim_start_matches("CPU ").parse::<usize>().is_ok())
            .collect();
        assert_eq!(names.len(), count, "each has its name");
        for (nth, (x, y, name)) in names.iter().enumerate() {
            assert!(*x > 0.0 && *x < width && *y < height, "{count}: {name} at {x} {y}");
            if let Some((next_x, next_y, _)) =
                names.get(nth + 1).filter(|(next_x, _, _)| (next_x - x).abs() < 0.1)
            {
                assert!(next_y - y >= 11.0, "{count}: {name} at {x} {y}, next at {next_x} {next_y}");
            }
        }
        assert_eq!(text.matches("url(#hole)").count(), usize::from(count > 1), "the CPU without data");
    }
    // A given size is kept even if not everything fits.
    for (side, count) in [(MIN_PIXELS, 1024), (MAX_PIXELS, 1024), (MIN_PIXELS, 1)] {
        let options = RenderOptions { width: Some(side), height: Some(side), ..RenderOptions::default() };
        let text = svg(&cpus(count), &options);
        assert_eq!(sides(&text), (f64::from(side), f64::from(side)));
        assert!(texts_of(&text).iter().all(|(_, y, _)| *y <= f64::from(side)), "{side} {count}");
    }
}

#[test]
fn sparklines_stay_in_their_rows_and_name_their_holes() {
    for (count, theme) in [(1, Theme::Light), (40, Theme::Dark), (200, Theme::Light)] {
        let text = svg(&fleet(count), &RenderOptions { theme, ..RenderOptions::default() });
        let (_, height) = sides(&text);
        assert!(height <= 2740.0, "{count}: {height}");
        let texts = texts_of(&text);
        let of = |what: &str| texts.iter().filter(|(_, _, text)| text == what).count();
        assert_eq!(texts.iter().filter(|(_, _, text)| text.starts_with("host-")).count(), count);
        // The reason is in the row if it fits, else in a note below.
        let rows = count.div_ceil(3);
        assert_eq!(of("restart"), if count < 200 { rows } else { 0 }, "{count}");
        assert_eq!(of("Hatched: no data (restart)."), usize::from(count == 200), "{count}");
        assert_eq!(of("30.5"), count);
        assert_eq!(text.matches("url(#hole)").count(), rows);
    }
    let narrow = svg(&fleet(2), &RenderOptions { width: Some(MIN_PIXELS), ..RenderOptions::default() });
    assert!(!narrow.contains(">mean<") && narrow.contains(">last<") && narrow.contains(">peak<"));
    let mut odd = fleet(3);
    if let Body::Sparklines { rows, .. } = &mut odd.body {
        rows[0].values = vec![Some(f64::NAN), Some(-5.0), Some(1e300), Some(f64::INFINITY), None];
        rows[1] = Sparkline { values: vec![None; 10], highest: Vec::new(), mean: None, ..rows[1].clone() };
        rows[1].empty = Some("CPU use is not known".into());
    }
    let text = svg(&odd, &RenderOptions::default());
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    assert!(text.contains(">CPU use is not known</text>") && text.contains(">–</text>"), "{text}");
}

#[test]
fn nothing_runs_through_the_reason_of_a_hole() {
    let text = svg(&stacked(), &RenderOptions::default());
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what} in {text}"));
    let last = |what: &str| text.rfind(what).unwrap();
    // Elements that are written later lie above: the hole over the grid, the reason on a plate over all.
    let reason = at(">restart</text>");
    assert!(at("url(#hole)") > text.find("<line").unwrap());
    assert!(reason > last("<path") && reason > at("rx=\"4\""));
    assert!(text.contains("No data: 11:11:40 – 11:11:41.500 (queue full)"), "{text}");
}

#[test]
fn colours_follow_the_theme_asked_for_alone() {
    let (light, dark) = (svg(&stacked(), &small(Theme::Light)), svg(&stacked(), &small(Theme::Dark)));
    for (light_color, dark_color) in [("#2a78c4", "#4c9be8"), ("#ffffff", "#141a21"), ("#dde3e9", "#242e39")]
    {
        assert!(light.contains(light_color) && !light.contains(dark_color));
        assert!(dark.contains(dark_color) && !dark.contains(light_color));
    }
}

#[test]
fn hostile_names_are_only_text() {
    let values = [Some(1.0); 6];
    let long = "x".repeat(3000);
    let lines = [HOSTILE, &long, "'; DROP TABLE--", "", "日本語の名前"].into_iter().enumerate();
    let lines = lines.map(|(nth, name)| line(name, Ink::Nth(nth), Stroke::Solid, &values)).collect();
    let mut chart = chart(Body::Lines { lines, max: None }, 6);
    chart.title = format!("{HOSTILE}{long}");
    chart.holes.push(Hole { begin_ms: BEGIN_MS, end_ms: BEGIN_MS + 1e6, reason: HOSTILE.into() });
    chart.notes.push(HOSTILE.into());
    let mut rows = heat(3, 8);
    if let Body::Heatmap { rows, .. } = &mut rows.body {
        rows[0].name = HOSTILE.into();
        rows[1].name = long;
    }
    let mut bars = cpus(3);
    if let Body::Bars { bars, parts, .. } = &mut bars.body {
        (bars[0].name, bars[1].name) = (HOSTILE.into(), "x".repeat(500));
        parts[0].label = HOSTILE.into();
    }
    let mut lines = fleet(3);
    if let Body::Sparklines { rows, .. } = &mut lines.body {
        (rows[0].name, rows[1].name) = (HOSTILE.into(), "'; DROP TABLE--".repeat(40));
        rows[0].holes[0].reason = HOSTILE.into();
        rows[2].empty = Some(HOSTILE.into());
    }
    for chart in [chart, rows, bars, lines] {
        for options in [
            RenderOptions::default(),
            RenderOptions { width: Some(MIN_PIXELS), height: Some(MIN_PIXELS), ..RenderOptions::default() },
        ] {
            let text = svg(&chart, &options);
            let document = Document::parse(&text).unwrap();
            let known = ["svg", "title", "rect", "line", "text", "path", "defs", "pattern"];
            for node in document.descendants().filter(roxmltree_is_element) {
                assert!(known.contains(&node.tag_name().name()), "{node:?}");
                assert!(
                    node.attributes().all(|one| !one.name().starts_with("on") && one.name() != "href"),
                    "{node:?}"
                );
            }
            assert!(
                !text.contains("<script") && !text.chars().any(|c| c.is_control() && c != '\n'),
                "{text}"
            );
            assert!(!draw(&chart, &options, PictureForm::Png).unwrap().is_empty());
        }
    }
}

fn roxmltree_is_element(node: &resvg::usvg::roxmltree::Node<'_, '_>) -> bool {
    node.is_element()
}

#[test]
fn what_is_empty_says_so() {
    let mut nothing = chart(Body::Lines { lines: Vec::new(), max: None }, 0);
    nothing.empty = Some("No data in this range".into());
    assert!(svg(&nothing, &RenderOptions::default()).contains(">No data in this range</text>"));
    let mut nothing = chart(heatmap(Vec::new(), 0.0), 0);
    nothing.empty = Some("No data in this range".into());
    assert!(svg(&nothing, &RenderOptions::default()).contains(">No data in this range</text>"));
}

#[test]
fn what_is_empty_has_no_bars_and_no_rows() {
    for mut nothing in [cpus(2), fleet(2)] {
        nothing.empty = Some("No data in this range".into());
        let text = svg(&nothing, &RenderOptions::default());
        assert!(text.contains(">No data in this range</text>"), "{text}");
        assert!(!text.contains("host-") && !text.contains("CPU 0") && !text.contains(">idle<"), "{text}");
    }
}

#[test]
fn extremes_stay_within_the_picture() {
    let odd = [Some(f64::NAN), Some(-5.0), Some(1e300), Some(f64::INFINITY), None, Some(0.0)];
    let lines = (0..64).map(|nth| line(&format!("task {nth}"), Ink::Nth(nth), Stroke::Solid, &odd)).collect();
    let wild = chart(Body::Lines { lines, max: None }, 6);
    for options in [RenderOptions::default(), small(Theme::Light)] {
        let text = svg(&wild, &options);
        // The legend reports how many it leaves out.
        assert_eq!(text.contains(" more</text>"), options.width == Some(480), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
    // Many rows are lower, not more picture.
    let text = svg(&heat(1000, 20), &RenderOptions::default());
    let height: f64 =
        Document::parse(&text).unwrap().root_element().attribute("height").unwrap().parse().unwrap();
    assert!(height <= 2700.0, "{height}");
}

#[test]
fn a_png_has_two_pixels_for_each_and_is_the_same_again() {
    let options = small(Theme::Light);
    let png = draw(&stacked(), &options, PictureForm::Png).unwrap();
    let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    assert_eq!((&png[1..4], side(16), side(20)), (&b"PNG"[..], 960, 600));
    assert_eq!(png, draw(&stacked(), &options, PictureForm::Png).unwrap());
    let pixels = resvg::tiny_skia::Pixmap::decode_png(&png).unwrap();
    // Text is there: a font that is not found would leave the title's place blank.
    let inked = (32..240).flat_map(|x| (20..52).map(move |y| (x, y)));
    let dark = inked.filter(|(x, y)| pixels.pixel(*x, *y).is_some_and(|pixel| pixel.red() < 90)).count();
    assert!(dark > 300, "{dark} dark pixels in the title");
}

/// The widths that texts are laid out with are those of the embedded font.
#[test]
fn widths_are_those_of_the_font() {
    let font = include_bytes!("font/Inter-chart.ttf");
    let u16_at = |at: usize| u16::from_be_bytes([font[at], font[at + 1]]);
    let u32_at = |at: usize| u32::from_be_bytes(font[at..at + 4].try_into().unwrap()) as usize;
    let table = |name: &[u8; 4]| {
        let entry = (0..usize::from(u16_at(4))).map(|nth| 12 + nth * 16);
        entry.into_iter().find(|at| &font[*at..*at + 4] == name).map(|at| u32_at(at + 8)).unwrap()
    };
    let (units, count) = (u32::from(u16_at(table(b"head") + 18)), u16_at(table(b"hhea") + 34));
    // The first letters of the font are ASCII, behind .notdef.
    for (nth, width) in ASCII.iter().enumerate() {
        let glyph = glyph_of(font, table(b"cmap"), 0x20 + u32::try_from(nth).unwrap());
        let advance = u32::from(u16_at(table(b"hmtx") + usize::from(glyph.min(count - 1)) * 4));
        let thousandths = (advance * 1000 + units / 2) / units;
        assert!(thousandths.abs_diff(u32::from(*width)) <= 1, "{nth}: {thousandths} {width}");
    }
}

/// The glyph of a character in a cmap table of format 4.
fn glyph_of(font: &[u8], cmap: usize, character: u32) -> u16 {
    let u16_at = |at: usize| u16::from_be_bytes([font[at], font[at + 1]]);
    let character = u16::try_from(character).unwrap();
    let at = (0..usize::from(u16_at(cmap + 2)))
        .map(|nth| cmap + u32::from_be_bytes(font[cmap + 8 + nth * 8..][..4].try_into().unwrap()) as usize)
        .find(|at| u16_at(*at) == 4)
        .unwrap();
    let segments = usize::from(u16_at(at + 6)) / 2;
    let (ends, starts) = (at + 14, at + 16 + segments * 2);
    let (deltas, offsets) = (starts + segments * 2, starts + segments * 4);
    let nth = (0..segments).find(|nth| u16_at(ends + nth * 2) >= character).unwrap();
    let offset = u16_at(offsets + nth * 2);
    if offset == 0 {
        return character.wrapping_add(u16_at(deltas + nth * 2));
    }
    let index = usize::from(offset) + usize::from(character - u16_at(starts + nth * 2)) * 2;
    u16_at(offsets + nth * 2 + index)
}
