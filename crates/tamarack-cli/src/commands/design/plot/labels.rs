//! Places for labels beside marks, so that no label covers another label or a mark, and no line
//! from a mark to its label crosses another label.
//!
//! Labels are placed one after the other, each at the first free place of a list: near its mark
//! before far from it, and below and left of it first, since nothing is there beside a front that
//! falls from the left to the right.

/// A rectangle; y grows downwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

/// A label: its mark, and its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnplacedLabel {
    pub(super) mark: (f64, f64),
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Distances of a label from the middle of its mark.
const DISTANCES: [f64; 11] = [8.0, 14.0, 22.0, 32.0, 44.0, 60.0, 80.0, 105.0, 135.0, 170.0, 210.0];

/// From this distance on a line leads from a mark to its label.
const LEADER_MIN: f64 = 12.0;

/// A line from a point to another one.
pub(super) type Leader = [(f64, f64); 2];

/// Directions in which a label lies from its mark: right and down are positive.
const DIRECTIONS: [(f64, f64); 8] =
    [(-0.7, 0.7), (-1.0, 0.0), (0.0, 1.0), (0.7, -0.7), (1.0, 0.0), (0.0, -1.0), (0.7, 0.7), (-0.7, -0.7)];

impl Area {
    /// The area around a point.
    pub(super) fn around((x, y): (f64, f64), half: f64) -> Self {
        Self { left: x - half, top: y - half, right: x + half, bottom: y + half }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn is_within(&self, other: &Self) -> bool {
        self.left >= other.left && self.right <= other.right && self.top >= other.top && self.bottom <= other.bottom
    }

    /// The line from a mark to this area of its label; `None` if it is near.
    pub(super) fn leader(&self, (x, y): (f64, f64)) -> Option<Leader> {
        let nearest = (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom));
        ((nearest.0 - x).hypot(nearest.1 - y) > LEADER_MIN).then_some([(x, y), nearest])
    }

    /// True if a part of the line is in the area.
    fn is_crossed(&self, [from, to]: Leader) -> bool {
        // The part of the line, from 0 to 1, between two sides.
        let between = |from: f64, to: f64, low: f64, high: f64| {
            if from == to {
                return if low < from && from < high { (0.0, 1.0) } else { (1.0, 0.0) };
            }
            let [one, other] = [low, high].map(|side| (side - from) / (to - from));
            (one.min(other), one.max(other))
        };
        let (across, along) =
            (between(from.0, to.0, self.left, self.right), between(from.1, to.1, self.top, self.bottom));
        across.0.max(along.0).max(0.0) < across.1.min(along.1).min(1.0)
    }
}

impl UnplacedLabel {
    /// Its area at a distance in a direction.
    fn at(&self, distance: f64, (right, down): (f64, f64)) -> Area {
        let Self { mark: (x, y), width, height } = *self;
        // Straight above, below or beside the mark, its middle is in line with the mark's.
        let start = |middle: f64, side: f64, size: f64| match side {
            side if side < 0.0 => middle + side * distance - size,
            side if side > 0.0 => middle + side * distance,
            _ => middle - size / 2.0,
        };
        let (left, top) = (start(x, right, width), start(y, down, height));
        Area { left, top, right: left + width, bottom: top + height }
    }
}

/// The areas of labels within `bounds`, none of which overlaps another one, an area of `marks`, or
/// the leader of another one; `None` where there is no place.
pub(super) fn placed(labels: &[UnplacedLabel], marks: &[Area], bounds: &Area) -> Vec<Option<Area>> {
    let (mut taken, mut leaders) = (Vec::<Area>::new(), Vec::<Leader>::new());
    let place = |label: &UnplacedLabel| {
        let mut places = DISTANCES.iter().flat_map(|distance| DIRECTIONS.map(|side| label.at(*distance, side)));
        let is_free = |area: &Area| {
            area.is_within(bounds)
                && !marks.iter().chain(&taken).any(|other| other.overlaps(area))
                && !leaders.iter().any(|leader| area.is_crossed(*leader))
                && !area.leader(label.mark).is_some_and(|leader| taken.iter().any(|other| other.is_crossed(leader)))
        };
        let area = places.find(is_free);
        taken.extend(area);
        leaders.extend(area.and_then(|area| area.leader(label.mark)));
        area
    };
    labels.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamarack_testing::{Random, seeds};

    const BOUNDS: Area = Area { left: 70.0, top: 120.0, right: 850.0, bottom: 560.0 };

    /// Random marks, many of them close together: labels that are placed overlap nothing and stay
    /// within the bounds, no leader crosses one, and of twenty labels nearly all are placed.
    #[test]
    fn nothing_overlaps() {
        let mut unplaced = 0;
        for seed in seeds(200) {
            let mut random = Random::new(seed);
            let clusters = 1 + random.below(6);
            let labels: Vec<UnplacedLabel> = (0..20)
                .map(|_| {
                    let cluster = random.below(clusters) as f64 / clusters as f64;
                    let x = BOUNDS.left + 780.0 * (0.7 * cluster + 0.3 * random.fraction());
                    let y = BOUNDS.top + 440.0 * (0.6 * cluster + 0.4 * random.fraction());
                    UnplacedLabel { mark: (x, y), width: 30.0 + 120.0 * random.fraction(), height: 15.0 }
                })
                .collect();
            let marks: Vec<Area> = labels.iter().map(|label| Area::around(label.mark, 5.0)).collect();
            let areas = placed(&labels, &marks, &BOUNDS);
            assert_eq!(areas.len(), labels.len());
            unplaced += areas.iter().filter(|area| area.is_none()).count();
            for (label, area) in labels.iter().zip(&areas) {
                let Some([from, to]) = area.and_then(|area| area.leader(label.mark)) else { continue };
                for step in 1..100 {
                    let at = |from: f64, to: f64| from + f64::from(step) / 100.0 * (to - from);
                    let point = Area::around((at(from.0, to.0), at(from.1, to.1)), 0.0);
                    let is_crossed = areas.iter().flatten().any(|other| other.overlaps(&point));
                    assert!(!is_crossed, "seed {seed}: the leader from {from:?} to {to:?} crosses a label");
                }
            }
            let areas: Vec<Area> = areas.into_iter().flatten().collect();
            for (at, area) in areas.iter().enumerate() {
                let others = areas[..at].iter().chain(&marks);
                assert!(area.is_within(&BOUNDS), "seed {seed}: {area:?}");
                for other in others {
                    assert!(!area.overlaps(other), "seed {seed}: {area:?} and {other:?}");
                }
            }
        }
        assert!(unplaced < 200, "{unplaced} of 4,000 labels have no place");
    }

    /// Lines through, beside, within and up to an area.
    #[test]
    fn crossings() {
        let area = Area { left: 10.0, top: 10.0, right: 20.0, bottom: 20.0 };
        for (line, is_crossed) in [
            ([(0.0, 0.0), (30.0, 30.0)], true),
            ([(15.0, 0.0), (15.0, 30.0)], true),
            ([(30.0, 15.0), (0.0, 15.0)], true),
            ([(12.0, 12.0), (18.0, 13.0)], true),
            ([(0.0, 15.0), (12.0, 15.0)], true),
            ([(5.0, 0.0), (5.0, 30.0)], false),
            ([(0.0, 5.0), (30.0, 5.0)], false),
            ([(0.0, 15.0), (10.0, 15.0)], false),
            ([(0.0, 0.0), (30.0, 9.0)], false),
            ([(0.0, 25.0), (12.0, 35.0)], false),
        ] {
            assert_eq!(area.is_crossed(line), is_crossed, "{line:?}");
        }
    }

    /// A label alone is below and left of its mark, and in a corner where there is a place.
    #[test]
    fn first_places() {
        let label = |mark| UnplacedLabel { mark, width: 40.0, height: 10.0 };
        let place = |mark| placed(&[label(mark)], &[], &BOUNDS)[0].expect("there is a place");
        let area = place((400.0, 300.0));
        assert!(area.right < 400.0 && area.top > 300.0, "{area:?}");
        let area = place((BOUNDS.left, BOUNDS.bottom));
        assert!(area.left >= BOUNDS.left && area.bottom <= BOUNDS.bottom, "{area:?}");
        assert_eq!(placed(&[UnplacedLabel { width: 1e4, ..label((400.0, 300.0)) }], &[], &BOUNDS), [None]);
    }
}
