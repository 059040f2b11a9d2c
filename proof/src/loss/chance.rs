//! Numbers that look random and follow from a seed (`SplitMix64`).

/// A source of numbers.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.number() % limit).unwrap_or(0)
    }

    /// Whether something happens that happens once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of a list, each as often as its weight says.
    pub fn weighed<T: Copy>(&mut self, all: &[(T, usize)]) -> Option<T> {
        let mut rest = self.below(all.iter().map(|(_, weight)| weight).sum());
        all.iter()
            .find(|(_, weight)| {
                let hit = rest < *weight;
                rest = rest.saturating_sub(*weight);
                hit
            })
            .map(|(one, _)| *one)
    }
}
