//! What became of the letters of an outage.

use redrive_sim::SimMillis;

/// The moments at which each endpoint took a letter, from the beginning of the story.
pub type TakenTimes = Vec<Vec<SimMillis>>;

/// What became of the letters.
#[derive(Debug, Clone, Default)]
pub struct OutageResult {
    pub taken: TakenTimes,
    /// The letters that were taken, in their order, by their numbers. Letter `n` of `k` endpoints is for endpoint `n % k`.
    pub letters: Vec<(SimMillis, usize)>,
    /// The letters that the worker of their queue was done with.
    pub worked: Vec<(SimMillis, usize)>,
    /// The moments at which the letters arrived in the queue.
    pub arrived: Vec<SimMillis>,
    /// The moments of requests to the first endpoint during its outage.
    pub in_vain: Vec<SimMillis>,
    /// The number of attempts in the log, and of those that took no number.
    pub attempts: u64,
    pub unplanned: u64,
    /// The reasons why letters were archived.
    pub archived: Vec<String>,
}

impl OutageResult {
    /// Returns the moments at which each of so many endpoints took letters.
    pub fn taken_by(&self, endpoints: usize) -> TakenTimes {
        let of = |endpoint: usize| {
            self.letters.iter().filter(move |(_, letter)| letter % endpoints == endpoint).map(|(at, _)| *at)
        };
        (0..endpoints).map(|endpoint| of(endpoint).collect()).collect()
    }

    /// Returns how often each letter was taken.
    pub fn times(&self) -> Vec<usize> {
        let mut times = vec![0; self.arrived.len()];
        for (_, letter) in &self.letters {
            times[*letter] += 1;
        }
        times
    }
}
