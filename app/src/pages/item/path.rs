//! The machine of an item's states with the way it took, drawn; and the same way in words, for those who do not
//! see it. Which states there are and what leads where is the domain's; this only knows where to put them.

use domain::{
    Item, ItemState,
    item::{Attempt, EndedAs},
};
use leptos::prelude::*;

use crate::components::state::word;

/// Where each state stands, in a drawing of 640 by 176: its middle.
const fn place(state: ItemState) -> (i32, i32) {
    match state {
        ItemState::Scheduled => (70, 40),
        ItemState::Blocked => (70, 136),
        ItemState::Available => (220, 88),
        ItemState::Running => (380, 88),
        ItemState::Retryable => (300, 24),
        ItemState::Succeeded => (560, 24),
        ItemState::Dead => (560, 66),
        ItemState::Cancelled => (560, 108),
        ItemState::Expired => (560, 150),
    }
}

/// The arrows that are drawn.
const ARROWS: [(ItemState, ItemState); 9] = [
    (ItemState::Scheduled, ItemState::Available),
    (ItemState::Blocked, ItemState::Available),
    (ItemState::Available, ItemState::Running),
    (ItemState::Running, ItemState::Retryable),
    (ItemState::Retryable, ItemState::Available),
    (ItemState::Running, ItemState::Succeeded),
    (ItemState::Running, ItemState::Dead),
    (ItemState::Running, ItemState::Cancelled),
    (ItemState::Running, ItemState::Expired),
];

/// Half the width and half the height of a state's box.
const HALF: (i32, i32) = (54, 15);

/// The states it has been in, in the order in which they are known. `attempts`: the newest first.
fn way(item: &Item, attempts: &[Attempt]) -> Vec<ItemState> {
    let mut way = Vec::new();
    let mut go = |state: ItemState| {
        if way.last() != Some(&state) {
            way.push(state);
        }
    };
    if item.run_after.is_some() {
        go(ItemState::Scheduled);
    }
    for attempt in attempts.iter().rev() {
        go(ItemState::Available);
        go(ItemState::Running);
        if attempt.ended_as == Some(EndedAs::Failed) {
            go(ItemState::Retryable);
        }
    }
    // What the last failure led to: a final state, where it stands now or from where a person gave it back.
    if way.last() == Some(&ItemState::Retryable) && item.state != ItemState::Retryable {
        let again = matches!(item.state, ItemState::Available | ItemState::Blocked | ItemState::Scheduled);
        if !again || item.failures == 0 {
            way.pop();
        }
        if again && item.failures == 0 {
            way.push(ItemState::Dead);
        }
    }
    if way.last() != Some(&item.state) {
        way.push(item.state);
    }
    way
}

pub(super) fn drawing(item: &Item, attempts: &[Attempt]) -> AnyView {
    let way = way(item, attempts);
    let taken = |from: ItemState, to: ItemState| way.windows(2).any(|pair| pair == [from, to]);
    let arrows = ARROWS
        .into_iter()
        .map(|(from, to)| {
            let class = if taken(from, to) { "way way-taken" } else { "way" };
            view! { <path class=class d=arrow(from, to) /> }
        })
        .collect_view();
    let boxes = ItemState::ALL
        .into_iter()
        .map(|state| {
            let (x, y) = place(state);
            let class = if state == item.state {
                format!("stop stop-here stop-{}", state.as_str())
            } else if way.contains(&state) {
                "stop stop-been".to_owned()
            } else {
                "stop".to_owned()
            };
            let at = |shift: i32, from: i32| (from + shift).to_string();
            view! {
                <g class=class>
                    <rect x=at(-HALF.0, x) y=at(-HALF.1, y) width=(2 * HALF.0).to_string() height=(2 * HALF.1).to_string() rx="6" />
                    <text x=x.to_string() y=at(5, y) text-anchor="middle">
                        {word(state)}
                    </text>
                </g>
            }
        })
        .collect_view();
    let told: Vec<&str> = way.iter().map(|&state| word(state)).collect();
    let label = format!("Its way so far: {}", told.join(", then "));
    view! {
        <div class="machine-frame" tabindex="0" role="group" aria-label="States">
            <svg class="machine" viewBox="0 0 640 176" role="img" aria-label=label>
                {arrows}
                {boxes}
            </svg>
        </div>
    }
    .into_any()
}

/// A curve from the side of one box to the side of another, with a head.
fn arrow(from: ItemState, to: ItemState) -> String {
    let ((fx, fy), (tx, ty)) = (place(from), place(to));
    // Back to the left: from above the one to beside the other.
    if tx < fx {
        let (sx, sy) = if from == ItemState::Running { (fx, fy - HALF.1) } else { (fx - HALF.0, fy) };
        let (ex, ey) = if to == ItemState::Retryable { (tx + HALF.0, ty) } else { (tx, ty - HALF.1) };
        return if to == ItemState::Retryable {
            format!("M{sx} {sy}Q{sx} {ey} {ex} {ey}M{} {}L{ex} {ey}L{} {}", ex + 7, ey - 4, ex + 7, ey + 4)
        } else {
            format!("M{sx} {sy}Q{ex} {sy} {ex} {ey}M{} {}L{ex} {ey}L{} {}", ex - 4, ey - 7, ex + 4, ey - 7)
        };
    }
    let (sx, ex) = (fx + HALF.0, tx - HALF.0);
    let middle = i32::midpoint(sx, ex);
    format!("M{sx} {fy}C{middle} {fy} {middle} {ty} {ex} {ty}M{} {}L{ex} {ty}L{} {}", ex - 7, ty - 4, ex - 7, ty + 4)
}
