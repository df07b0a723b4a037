//! Places for labels beside marks, so that no label covers another label or a mark.
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
const DISTANCES: [f64; 9] = [8.0, 14.0, 22.0, 32.0, 44.0, 60.0, 80.0, 105.0, 135.0];

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

    /// The point of the area that is nearest to another one.
    pub(super) fn nearest(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
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

/// The areas of labels within `bounds`, none of which overlaps another one or an area of `marks`;
/// `None` where there is no place.
pub(super) fn placed(labels: &[UnplacedLabel], marks: &[Area], bounds: &Area) -> Vec<Option<Area>> {
    let mut taken = marks.to_vec();
    let place = |label: &UnplacedLabel| {
        let mut places = DISTANCES.iter().flat_map(|distance| DIRECTIONS.map(|side| label.at(*distance, side)));
        let is_free = |area: &Area| area.is_within(bounds) && !taken.iter().any(|other| other.overlaps(area));
        let area = places.find(is_free);
        taken.extend(area);
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
    /// within the bounds, and of twenty labels nearly all are placed.
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
