//! `/jobs/{id}?view=graph`: the jobs of a tree with what they feed and what they wait for. SVG with links, drawn by the
//! server, and the same in a table. Live like the other sections of the page.

mod layout;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;

use crate::speech::grouped;
use domain::{Counts, Job, JobStatus, Outcome};
use leptos::prelude::*;

use self::layout::{Edge, Graph, MOST, Node, Relation, Shown, layout};
use super::view::JobView;
use crate::{
    components::{
        bar::pattern,
        state::icon,
        table::{self, Head},
    },
    job_view::{display_name, job_shape, job_word},
    meter::{Meter, Segment},
};

/// Size of a node, and the space between nodes.
const WIDTH: usize = 216;
const HEIGHT: usize = 92;
const GAP_X: usize = 88;
const GAP_Y: usize = 20;
const EDGE: usize = 28;
/// Padding within a node, and the width of its bar.
const PAD: usize = 14;
const BAR: f64 = (WIDTH - 2 * PAD) as f64;
/// Maximum characters of a name in a node.
const NAME: usize = 24;

/// What a node says.
struct Words {
    name: String,
    job_type: String,
    status: JobStatus,
    outcome: Option<Outcome>,
    meter: Meter,
    /// Number of jobs that it stands for, if it is not one.
    jobs: Option<usize>,
    to: String,
}

impl Words {
    fn of(shown: Shown<'_>) -> Self {
        match shown {
            Shown::Job(job) => Self {
                name: display_name(job),
                job_type: job.job_type.clone(),
                status: job.status,
                outcome: job.outcome,
                meter: Meter::of_job(job),
                jobs: None,
                to: format!("/jobs/{}", job.id),
            },
            Shown::Collapsed(job, jobs) => Self {
                name: display_name(job),
                job_type: job.job_type.clone(),
                status: job.tree.status,
                outcome: job.tree.outcome,
                meter: Meter::of_tree(job),
                jobs: Some(jobs),
                to: JobView::Graph.address(job),
            },
            Shown::Others { root, jobs, counts } => Self {
                name: "Other jobs".to_owned(),
                job_type: String::new(),
                status: status_of(&counts),
                outcome: Some(Outcome::of(&counts, false)).filter(|_| counts.pending() == 0),
                meter: Meter { counts, whole: counts.total(), percent: None },
                jobs: Some(jobs),
                to: format!("/jobs?q=root:{}", root.root_id),
            },
        }
    }

    fn word(&self) -> String {
        let word = job_word(self.status, self.outcome);
        self.jobs
            .map_or_else(|| word.to_owned(), |jobs| format!("{} jobs, {}", grouped(jobs as i64), word.to_lowercase()))
    }

    /// `3,245 of 5,000`.
    fn done(&self) -> String {
        match (self.meter.counts.finished(), self.meter.whole) {
            (_, 0) => "No items yet".to_owned(),
            (done, whole) => format!("{} of {}", grouped(done), grouped(whole)),
        }
    }

    /// Number of failed items, if there are any.
    fn failed(&self) -> Option<String> {
        (self.meter.counts.dead > 0).then(|| format!("{} failed", grouped(self.meter.counts.dead)))
    }

    /// Name of the node's link: what it shows, and the whole name if it shows a part of it.
    fn label(&self) -> String {
        let shown = clipped(&self.name);
        let failed = self.failed().map(|failed| format!(", {failed}")).unwrap_or_default();
        let whole = if shown == self.name { String::new() } else { format!(", {}", self.name) };
        format!("{shown}: {}, {}{failed}{whole}", self.word(), self.done())
    }
}

/// Status of jobs together, from their items.
const fn status_of(counts: &Counts) -> JobStatus {
    if counts.pending() == 0 {
        JobStatus::Completed
    } else if counts.finished() > 0 || counts.running > 0 {
        JobStatus::Running
    } else {
        JobStatus::Waiting
    }
}

/// Left and upper corner of a node.
const fn corner(node: &Node<'_>) -> (usize, usize) {
    (EDGE + node.column * (WIDTH + GAP_X), EDGE + node.row * (HEIGHT + GAP_Y))
}

/// The section.
pub(super) fn graph(job: &Job) -> AnyView {
    let graph = layout(job);
    let words: Vec<Words> = graph.nodes.iter().map(|node| Words::of(node.shown)).collect();
    let all = job.subtree().len();
    let width = 2 * EDGE + graph.columns * WIDTH + graph.columns.saturating_sub(1) * GAP_X;
    let height = 2 * EDGE + graph.rows * HEIGHT + graph.rows.saturating_sub(1) * GAP_Y;
    let edges = graph.edges.iter().map(|edge| line(&graph, &words, *edge)).collect_view();
    let nodes = graph.nodes.iter().zip(&words).map(|(node, words)| draw(node, words)).collect_view();
    let label = if all == 1 { "1 job".to_owned() } else { format!("{} jobs", grouped(all as i64)) };
    let collapsed = (all > MOST).then(|| {
        view! { <p class="card-foot">"This tree has more than 200 jobs. Jobs without room are shown with the job above them; open it to see its own graph."</p> }
    });
    let key = |class: &'static str, word: &'static str| {
        view! {
            <li>
                <svg class="edge-key" viewBox="0 0 28 8" aria-hidden="true" focusable="false">
                    <path class=format!("edge {class}") d="M0 4h28" />
                </svg>
                {word}
            </li>
        }
    };
    view! {
        <section class="card" id="graph" data-refresh="" aria-labelledby="graph-heading">
            <div class="card-head">
                <h2 id="graph-heading">"Graph"</h2>
                <span class="sub">{label.clone()}</span>
                <div class="end">
                    <ul class="chart-key">
                        {key("edge-live", "Feeds items")} {key("edge-after", "Runs after")} {key("edge-part", "Part of")}
                    </ul>
                </div>
            </div>
            <div class="scroller dag-ground" tabindex="0" role="region" aria-label="Graph of the jobs">
                <svg
                    class="dag"
                    width=width.to_string()
                    height=height.to_string()
                    viewBox=format!("0 0 {width} {height}")
                    role="group"
                    aria-label=label
                >
                    {edges}
                    {nodes}
                </svg>
            </div>
            {collapsed}
            {as_table(&graph, &words)}
        </section>
    }
    .into_any()
}

/// Line from one node to another, with an arrow, and the number of items that a feed has made so far.
fn line(graph: &Graph<'_>, words: &[Words], edge: Edge) -> AnyView {
    let ((from_x, from_y), (to_x, to_y)) = (corner(&graph.nodes[edge.from]), corner(&graph.nodes[edge.to]));
    let (x, y, end, end_y) = (from_x + WIDTH, from_y + HEIGHT / 2, to_x, to_y + HEIGHT / 2);
    // Edges of a circle lead back.
    let (x, end, bend) = if end > x { (x, end, GAP_X / 2) } else { (from_x + WIDTH / 2, end + WIDTH / 2, 0) };
    let (class, head) = match edge.relation {
        Relation::Feeds => ("edge edge-live", "edge-head edge-head-live"),
        Relation::After => ("edge edge-after", "edge-head"),
        Relation::Contains => ("edge edge-part", "edge-head edge-head-part"),
    };
    let path = format!("M{x} {y}C{} {y} {} {end_y} {} {end_y}", x + bend, end - bend, end - 7);
    let arrow = format!("M{} {}L{end} {end_y}L{} {}Z", end - 8, end_y - 4, end - 8, end_y + 4);
    let fed = (edge.relation == Relation::Feeds && matches!(graph.nodes[edge.to].shown, Shown::Job(_))).then(|| {
        let text = grouped(words[edge.to].meter.counts.total());
        let wide = 14 + 7 * text.len();
        let (x, y) = (end - GAP_X / 2, end_y.midpoint(y));
        view! {
            <rect class="node" x=(x - wide / 2).to_string() y=(y - 10).to_string() width=wide.to_string() height="20" rx="10" />
            <text class="t-sub" x=x.to_string() y=(y + 4).to_string() text-anchor="middle">
                {text}
            </text>
        }
    });
    view! {
        <g aria-hidden="true">
            <path class=class d=path />
            <path class=head d=arrow />
            {fed}
        </g>
    }
    .into_any()
}

fn draw(node: &Node<'_>, words: &Words) -> AnyView {
    let (x, y) = corner(node);
    let at = |dx: usize| (x + dx).to_string();
    let down = |dy: usize| (y + dy).to_string();
    let shape = job_shape(words.status, words.outcome);
    let class = match words.status {
        JobStatus::Running => "node node-run",
        JobStatus::Waiting => "node node-hold",
        JobStatus::Cancelling | JobStatus::Completed => "node",
    };
    let stack = words.jobs.map(|_| {
        view! { <rect class="node" x=at(6) y=down(6) width=WIDTH.to_string() height=HEIGHT.to_string() rx="10" /> }
    });
    let bar = words.meter.segments().into_iter().filter(|segment| segment.width > 0.0).map(
        |Segment { state, from, width }| {
            let place = |percent: f64| format!("{:.1}", percent / 100.0 * BAR);
            view! {
                <rect
                    class=format!("seg-{}", state.as_str())
                    fill=pattern(state)
                    x=format!("{:.1}", (x + PAD) as f64 + from / 100.0 * BAR)
                    y=down(54)
                    width=place(width)
                    height="7"
                />
            }
        },
    );
    let failed = words.failed().map(|failed| {
        view! {
            <text class="t-sub t-bad" x=at(WIDTH - PAD) y=down(79) text-anchor="end">
                {failed}
            </text>
        }
    });
    view! {
        <a href=words.to.clone() aria-label=words.label()>
            {stack}
            <rect class=class x=at(0) y=down(0) width=WIDTH.to_string() height=HEIGHT.to_string() rx="10" />
            <svg x=at(PAD) y=down(13) width="15" height="15" class=format!("icon icon-state s-{shape}")>
                <use href=format!("#i-{shape}") />
            </svg>
            <text class="t-name" x=at(PAD + 22) y=down(25)>
                {clipped(&words.name)}
            </text>
            " "
            <text class="t-sub" x=at(PAD + 22) y=down(43)>
                {words.word()}
            </text>
            <rect class="track" x=at(PAD) y=down(54) width=format!("{BAR}") height="7" rx="3.5" />
            {bar.collect_view()}
            " "
            <text class="t-sub" x=at(PAD) y=down(79)>
                {words.done()}
            </text>
            " "
            {failed}
        </a>
    }
    .into_any()
}

fn clipped(name: &str) -> String {
    if name.chars().count() <= NAME { name.to_owned() } else { name.chars().take(NAME - 1).chain(['…']).collect() }
}

/// The same as a table.
fn as_table(graph: &Graph<'_>, words: &[Words]) -> AnyView {
    let mut leads: BTreeMap<(usize, Relation), Vec<String>> = BTreeMap::new();
    for edge in &graph.edges {
        leads.entry((edge.to, edge.relation)).or_default().push(words[edge.from].name.clone());
    }
    let names =
        |at: usize, relation| leads.get(&(at, relation)).map_or_else(|| "–".to_owned(), |names| names.join(", "));
    let rows = words.iter().enumerate().map(|(at, it)| {
        let shape = job_shape(it.status, it.outcome);
        view! {
            <tr role="row">
                <th scope="row" role="rowheader" class="name">
                    <span class="two">
                        <a href=it.to.clone()>{it.name.clone()}</a>
                        <span hidden=it.name == it.job_type || it.job_type.is_empty()>{it.job_type.clone()}</span>
                    </span>
                </th>
                <td role="cell" class="fit">
                    <span class=format!("state s-{shape} badge")>{icon(shape)} " " {it.word()}</span>
                </td>
                <td role="cell" data-label="Fed by">{names(at, Relation::Feeds)}</td>
                <td role="cell" data-label="Runs after">{names(at, Relation::After)}</td>
                <td role="cell" data-label="Part of">{names(at, Relation::Contains)}</td>
                <td role="cell" class="num" data-label="Done">{grouped(it.meter.counts.succeeded)}</td>
                <td role="cell" class="num" data-label="Failed">{grouped(it.meter.counts.dead)}</td>
                <td role="cell" class="num" data-label="All">{grouped(it.meter.counts.total())}</td>
            </tr>
        }
    });
    let heads = [
        Head::Words("Job"),
        Head::Words("Status"),
        Head::Words("Fed by"),
        Head::Words("Runs after"),
        Head::Words("Part of"),
        Head::Number("Done"),
        Head::Number("Failed"),
        Head::Number("All"),
    ];
    view! {
        <details class="chart-data" id="graph-data">
            <summary>"Data table"</summary>
            {table::frame("Jobs of the graph", "graph-table", heads, rows.collect_view())}
        </details>
    }
    .into_any()
}
